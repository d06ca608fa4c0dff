"""Whether quotas can be carved out of the hardware (HiveD's safety)."""

from __future__ import annotations

from portal.clusters.selectors.engine import cluster_read
from portal.clusters.selectors.quotas import Lines
from portal.common.errors import Fault
from scheduling.safety import Shortage, shortages


def shortages_now(lines: Lines | None = None) -> list[str]:
    """What the quotas (those of now, or ``lines``) need beyond what there is: a sentence for each level."""
    return [shortage_words(found) for found in shortages(cluster_read(lines=lines).cluster)]


def shortage_words(found: Shortage) -> str:
    """``the quotas need 3 A100-node8, 2 are there``."""
    return f"the quotas need {found.needed} {found.cell_type}, {found.available} are there"


def shortage_faults(lines: Lines, *, path: str = "quota", when: str = "") -> list[Fault]:
    """The same as faults of a request; ``when`` is put before each, such as ``from 2 May``."""
    found = shortages(cluster_read(lines=lines).cluster)
    return [Fault(f"{path}.{one.cell_type}", f"{when}{shortage_words(one)}", "too_large") for one in found]

"""Priority classes: names for the priorities of jobs. Plain Python: the job file and the virtual clusters share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

PriorityClass = Literal["crit", "prod", "test", "oppo"]
"""HiveD's classes as OpenPAI names them, highest first."""

PRIORITY_CLASSES: Final[Mapping[PriorityClass, int]] = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
OPPORTUNISTIC: Final = PRIORITY_CLASSES["oppo"]
DEFAULT_PRIORITY_CLASS: Final[PriorityClass] = "test"
CAPPED_CLASS: Final[PriorityClass] = "prod"
"""What a virtual cluster's ``class_gpus`` limits: jobs of this class and above."""

_NAMES: Final[Mapping[int, str]] = {120: "Critical", 100: "Production", 10: "Test", -1: "Opportunistic"}


def priority_name(priority: int) -> str:
    """A class as people read it; a priority of none is its number."""
    return _NAMES.get(priority, str(priority))

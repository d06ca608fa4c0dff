"""Priority classes: names for job priorities. Plain Python, shared by job files and virtual clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

PriorityClass = Literal["crit", "prod", "test", "oppo"]
"""HiveD's classes under OpenPAI's names, highest first."""

PRIORITY_CLASSES: Final[Mapping[PriorityClass, int]] = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
OPPORTUNISTIC: Final = PRIORITY_CLASSES["oppo"]
DEFAULT_PRIORITY_CLASS: Final[PriorityClass] = "test"
CAPPED_CLASS: Final[PriorityClass] = "prod"
"""``class_gpus`` of a virtual cluster limits jobs of this class and above."""

_NAMES: Final[Mapping[int, str]] = {120: "Critical", 100: "Production", 10: "Test", -1: "Opportunistic"}


def priority_name(priority: int) -> str:
    """A class's name for people; for any other priority its number."""
    return _NAMES.get(priority, str(priority))

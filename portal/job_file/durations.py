"""Durations of a job file: whole seconds, or a number with a unit."""

from __future__ import annotations

import re
from typing import Any

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TEXT = re.compile(r"([1-9][0-9]{0,8})([smhd])")

LONGEST_SECONDS = 3_650 * 86_400


def seconds(value: Any) -> int | None:
    """`90`, `"90s"`, `"15m"`, `"2h"`, `"7d"` in seconds; None for anything else."""
    if isinstance(value, str):
        match = _TEXT.fullmatch(value)
        return int(match[1]) * _UNIT_SECONDS[match[2]] if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)

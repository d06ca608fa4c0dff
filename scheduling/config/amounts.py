"""Kubernetes' quantities, as HiveD's `skuTypes` give CPU and memory: "4", "500m", "8192Mi"."""

import re
from decimal import Decimal
from typing import Any

from scheduling.config.faults import Faults

_QUANTITY = re.compile(r"((?:\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})(?:[eE][+-]?\d{1,2})?)([A-Za-z]{0,2})")
_UNITS = {
    unit: Decimal(1000) ** power for power, unit in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], -3)
}
_UNITS |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)} | {"K": Decimal(1000)}
_MB = Decimal(1024) ** 2


def cpu_milli(value: Any, path: str, faults: Faults) -> int:
    """CPU in milli-cores; a plain number is cores."""
    amount = _amount(value)
    if amount is None:
        form = "must be a number of cores, such as 4, 0.5 or 500m, not %(value)s"
        faults.add(path, form, value=repr(str(value)[:40]))
        return 0
    return int(amount * 1000)


def memory_mb(value: Any, path: str, faults: Faults) -> int:
    """Memory in MB (2**20 bytes), the part of one left out; a plain number is bytes, as in Kubernetes."""
    amount = _amount(value)
    if amount is None or 0 < amount < _MB:
        form = "must be an amount of at least 1Mi, such as 8192Mi or 8Gi, not %(value)s"
        faults.add(path, form, value=repr(str(value)[:40]))
        return 0
    return int(amount / _MB)


def cpu_text(milli: int) -> int | str:
    """Milli-cores as a quantity."""
    return f"{milli}m" if milli % 1000 else milli // 1000


def memory_text(megabytes: int) -> str:
    """MB as a quantity."""
    return f"{megabytes}Mi"


def _amount(value: Any) -> Decimal | None:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return None
    if isinstance(value, int) and not 0 <= value < 10**15:
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in _UNITS:
        return None
    return Decimal(match[1]) * _UNITS[match[2]]

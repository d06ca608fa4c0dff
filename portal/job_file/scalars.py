"""Scalars of a job file by the core schema of YAML 1.2 (yaml.org/spec/1.2.2, 10.3).

OpenPAI read its files with js-yaml, so `yes`, `1.0.0` and dates are strings; YAML 1.1 would make them a boolean, an
error and a date.
"""

from __future__ import annotations

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

TAG_PREFIX: Final = "tag:yaml.org,2002:"
SCALAR_TAGS: Final = frozenset(TAG_PREFIX + name for name in ("str", "int", "float", "bool", "null"))

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 40


class NotFinite(ValueError):
    """The text means infinity or "not a number", which JSON cannot carry."""


class NotOfTag(ValueError):
    """The text does not match its tag."""


def plain(text: str) -> Scalar:
    """The value of an untagged plain scalar; raises `NotFinite`."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    number = _number(text)
    return text if number is None else number


def tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with one of `SCALAR_TAGS`; raises `NotOfTag` or `NotFinite`."""
    kind = tag.removeprefix(TAG_PREFIX)
    if kind == "str":
        return text
    value = plain(text)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value).__name__.removesuffix("Type").replace("None", "null") != kind:
        raise NotOfTag(kind)
    return value


def _number(text: str) -> int | float | None:
    if len(text) > _LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return None
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return _finite(float(text))
    if _NOT_FINITE.fullmatch(text):
        raise NotFinite(text)
    return None


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise NotFinite(str(value))
    return value

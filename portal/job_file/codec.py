"""Encodes frozen dataclasses to JSON values and decodes them by their type hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from nodes.protocol.decoding import converted

T = TypeVar("T")


def encode(value: Any) -> Any:
    """`value` with dataclasses as objects and tuples as lists."""
    if is_dataclass(value):
        return {item.name: encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(cls: type[T], data: Mapping[str, Any]) -> T:
    """An instance of the dataclass `cls`; a missing key takes its default and an unknown one is ignored, so that rows
    written by an older or newer release stay readable."""
    return converted(data, cls)

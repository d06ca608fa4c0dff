"""Frozen dataclasses to JSON values and back, by their own type hints."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

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
    """An instance of the dataclass `cls`; a missing key takes its default, an unknown one is ignored, so
    that rows written by an older or newer release stay readable."""
    hints = _hints(cast(Any, cls))
    given = {}
    for item in fields(cast(Any, cls)):
        if item.name in data:
            given[item.name] = _value(hints[item.name], data[item.name])
        elif _required(item):
            raise KeyError(f"{cls.__name__}.{item.name}")
    return cls(**given)


def _required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _value(hint: Any, value: Any) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, value)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(hint, value)
    if origin is tuple:
        item_hint = get_args(hint)[0]
        return tuple(_value(item_hint, item) for item in value)
    if origin is Literal and value not in get_args(hint):
        raise TypeError(f"{value!r} is not one of {get_args(hint)}")
    return value


def _optional(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
    return _value(inner, value)

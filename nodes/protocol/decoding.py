"""Decoding of JSON, MessagePack and plain values to the types of messages, files and rows, in any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Decoder = msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]

_decoders: dict[tuple[type[Decoder], Any], Decoder] = {}
_lock = threading.Lock()


def decoded(body: bytes | str, kind: type[T]) -> T:
    """Decodes JSON. Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``, and UnicodeDecodeError of a text
    within it."""
    return _decode_of(msgspec.json.Decoder, kind)(body)  # type: ignore[no-any-return]


def unpacked(body: bytes, kind: type[T]) -> T:
    """Decodes MessagePack; raises the same."""
    return _decode_of(msgspec.msgpack.Decoder, kind)(body)  # type: ignore[no-any-return]


def converted(value: object, kind: type[T]) -> T:
    """Converts values as JSON has them. Raises ``msgspec.ValidationError``."""
    _decode_of(msgspec.json.Decoder, kind)
    return msgspec.convert(value, type=kind)


def _decode_of(made: type[Decoder], kind: Any) -> Callable[[Any], Any]:
    """The decoder of a type, made by one thread before the type's first use: msgspec builds a type's description lazily
    and shares it half done, and a thread that decodes the same type meanwhile crashes the process."""
    decoder = _decoders.get((made, kind))
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault((made, kind), made(kind))
    return decoder.decode

"""JSON, MessagePack and plain values as the types that messages, files and rows have, in any thread."""

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
    """Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``, and UnicodeDecodeError of a text within it."""
    return _decode_of(msgspec.json.Decoder, kind)(body)  # type: ignore[no-any-return]


def unpacked(body: bytes, kind: type[T]) -> T:
    """The same of MessagePack."""
    return _decode_of(msgspec.msgpack.Decoder, kind)(body)  # type: ignore[no-any-return]


def converted(value: object, kind: type[T]) -> T:
    """The same of values as JSON has them. Raises ``msgspec.ValidationError``."""
    _decode_of(msgspec.json.Decoder, kind)
    return msgspec.convert(value, type=kind)


def _decode_of(made: type[Decoder], kind: Any) -> Callable[[Any], Any]:
    """msgspec works a type out when it first meets it, and what it has of it so far is there for other threads: one
    that decodes the same type meanwhile crashes the process. So each type is worked out by one thread, before its first
    use."""
    decoder = _decoders.get((made, kind))
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault((made, kind), made(kind))
    return decoder.decode

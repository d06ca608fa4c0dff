"""JSON as the types that answers and messages have, in any thread."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_lock = threading.Lock()


def decoded(body: bytes | str, kind: type[T]) -> T:
    """Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``, and UnicodeDecodeError of a text within it.

    msgspec works a type out when it first meets it, and what it has of it so far is there for other threads: one that
    decodes the same type meanwhile crashes the process. So each type is worked out by one thread, before its first use.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder.decode(body)  # type: ignore[no-any-return]

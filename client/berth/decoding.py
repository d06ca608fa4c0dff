"""Decoding of JSON to the types of answers and messages, in any thread."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_lock = threading.Lock()


def decoded(body: bytes | str, kind: type[T]) -> T:
    """Decodes JSON. Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError``, and UnicodeDecodeError of a text
    within it.

    Each type's decoder is made by one thread before its first use: msgspec builds a type's description lazily and
    shares it half done, and a thread that decodes the same type meanwhile crashes the process.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder.decode(body)  # type: ignore[no-any-return]

"""Image dimensions, from a file's first bytes."""

from __future__ import annotations

import struct
from pathlib import Path

HEAD = 30
"""Bytes to read; enough for both formats."""


def picture_size(path: Path) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG or lossy WebP, the two formats in ``docs/``; None for anything else."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None
    if len(head) < HEAD:
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack_from(">II", head, 16)
        return width, height
    if head.startswith(b"RIFF") and head[8:16] == b"WEBPVP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF  # the top two bits are a scale
    return None

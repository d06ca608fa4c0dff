"""Paths below a job folder as text. What jobs write are bytes: those that are no UTF-8 stand as ``%FF``, and a percent
sign as ``%25``. Every other character stands for itself."""

from __future__ import annotations

import re

LONGEST = 4096
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")


def path_text(path: bytes) -> str:
    """The path as the API gives it and takes it back."""
    return "".join(map(_shown, path.decode(errors="surrogateescape")))


def _shown(letter: str) -> str:
    if letter == "%":
        return "%25"
    return f"%{ord(letter) - 0xDC00:02X}" if "\udc80" <= letter <= "\udcff" else letter


def path_bytes(text: str) -> bytes:
    """The inverse. Raises ValueError, whose text is a sentence, for what can be no path below a folder."""
    path = _ESCAPE.sub(_meant, text.encode())
    if len(path) > LONGEST:
        raise ValueError(f"A path has at most {LONGEST} bytes.")
    if path and any(step in (b"", b".", b"..") or b"\0" in step for step in path.split(b"/")):
        raise ValueError("A path below the job folder, such as results/model.pt: no slash at its ends, no dots alone.")
    return path


def _meant(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        raise ValueError("A percent sign is written as %25, a byte that is no UTF-8 as %FF.")
    return bytes([int(match[1], 16)])

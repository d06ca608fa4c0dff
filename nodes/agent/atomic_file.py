"""Atomic replacement of the agent's own files."""

from __future__ import annotations

import os
from pathlib import Path


def file_replace(path: Path, data: bytes) -> None:
    """Replaces a file: readers see the old one or the new one, which is on disk when this returns. Raises OSError."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)

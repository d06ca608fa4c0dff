"""Secrets that live in files beside the data, never in the database and never in the repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def key_file(path: Path, make: Callable[[], str]) -> str:
    """The content of ``path``; made once, mode 0600, safe against two processes starting together.

    Raises OSError when the folder cannot be written.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(make() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_text(encoding="utf-8").strip()

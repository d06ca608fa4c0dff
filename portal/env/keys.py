"""Secrets of the environment, or of files beside the data: never in the database and never in the repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from portal.env.values import BadSetting, env_secret

Key = TypeVar("Key")


def secret_text(text: str) -> str:
    """One that is not empty. Raises ValueError."""
    if not text:
        raise ValueError("empty")
    return text


def secret_hex(text: str) -> str:
    """32 bytes in hexadecimal. Raises ValueError."""
    if len(bytes.fromhex(text)) != 32:
        raise ValueError("of another length")
    return text.strip()


def env_key(name: str, path: Path, make: Callable[[], str], load: Callable[[str], Key], allowed: str) -> Key:
    """A secret of the environment, or else of the file, which is made where it is not there; as ``load`` has it, which
    raises ValueError for what is not ``allowed``. No message shows it. Raises OSError where the file's folder cannot be
    written."""
    given = env_secret(name)
    try:
        return load(given.strip() if given else key_file(path, make))
    except ValueError:
        pass
    if given:
        raise BadSetting(f"{name}: must be {allowed}. Without it the key in {path} is used.")
    raise BadSetting(f"{path}: must hold {allowed}. Put the key that was there back, from a backup.")


def key_file(path: Path, make: Callable[[], str]) -> str:
    """The content of ``path``; made once, mode 0600, safe against two processes starting together.

    Raises OSError when the folder cannot be written.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not by the process's number: in containers that share the folder they are alike.
    fresh = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
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

"""The archives: files named by their hash, written beside their place and moved there whole.

``<folder>/<first two digits>/<sha256>.tar.gz``. What is being uploaded lies in ``<folder>/uploading``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal.common.errors import TooLarge

PIECE = 256 * 1024
SUFFIX = ".tar.gz"


@dataclass(frozen=True, slots=True)
class Received:
    """An archive that came in whole and lies beside its place."""

    path: Path
    sha256: str
    size: int


class CodeFiles:
    """All archives below ``folder``, which every web and worker process shares."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, sha256: str) -> Path:
        """Where an archive lies, or would."""
        return self._folder / sha256[:2] / f"{sha256}{SUFFIX}"

    @contextmanager
    def turn(self, holder: int) -> Iterator[bool]:
        """Whether this is the holder's only upload now, in whichever process; it is until the end. The lock of a
        process that is killed goes with it."""
        path = self._uploading() / f"{holder}.turn"
        with path.open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def receive(self, stream: IO[bytes], most: int) -> Iterator[Received]:
        """Writes what comes to the disk; unless it is kept by then it is gone at the end. Raises TooLarge, OSError."""
        handle, name = tempfile.mkstemp(dir=self._uploading())
        path = Path(name)
        try:
            digest, size = hashlib.sha256(), 0
            with os.fdopen(handle, "wb") as file:
                while piece := stream.read(PIECE):
                    size += len(piece)
                    if size > most:
                        raise TooLarge(most)
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            yield Received(path, digest.hexdigest(), size)
        finally:
            path.unlink(missing_ok=True)

    def _uploading(self) -> Path:
        uploading = self._folder / "uploading"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        uploading.mkdir(exist_ok=True)
        return uploading

    def keep(self, received: Received) -> None:
        """Moves an archive to its place, over one of the same content. On return it is on the disk."""
        final = self.path(received.sha256)
        final.parent.mkdir(exist_ok=True)
        received.path.replace(final)
        descriptor = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def remove(self, sha256: str) -> None:
        self.path(sha256).unlink(missing_ok=True)

    def older(self, *, than: float) -> list[str]:
        """The hashes of the archives that were put in their place before a time (unix s)."""
        found = []
        for path in self._folder.glob(f"[0-9a-f][0-9a-f]/*{SUFFIX}"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < than:
                    found.append(path.name.removesuffix(SUFFIX))
        return found

    def read(self, sha256: str, start: int = 0) -> Iterator[bytes]:
        """The archive from a byte on, in pieces. Raises FileNotFoundError at once, not at the first piece."""
        file = self.path(sha256).open("rb")
        file.seek(start)
        return _pieces(file)

    def sweep(self, *, before: float) -> int:
        """Deletes uploads that ended without their end, from before a time (unix s). Returns how many."""
        swept = 0
        with suppress(FileNotFoundError):
            for path in (self._folder / "uploading").iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        path.unlink()
                        swept += 1
        return swept


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE):
            yield piece

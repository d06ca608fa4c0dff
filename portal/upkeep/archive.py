"""The file of a backup: a tar whose last entry holds the SHA-256 of every other, so that a file that was cut off or
changed is known before anything is done with it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Self

import msgspec

from nodes.protocol.decoding import decoded

SUMS = "sums.json"
PART = ".part"
PART_LIVES_S = 24 * 3600
"""No backup that is under way has written nothing for so long."""
PIECE = 1 << 20
FOLDERS = ("database", "keys", "code", "logs", "metrics")


class ArchiveInvalid(Exception):
    """The file is not a whole backup. The message is one sentence."""


class ArchiveWriter:
    """Writes beside ``path`` and takes its name at the end: a backup that was cut off never has it, and of two that are
    made at once the last to end has it, whole. Mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sums: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._sweep()
        # A name of its own: another backup may be under way, and in a folder of everybody's somebody may have laid
        # something under a name that can be told beforehand.
        handle, name = tempfile.mkstemp(PART, f".{self.path.name}.", self.path.parent)
        self._part, self._file = Path(name), os.fdopen(handle, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._part.unlink(missing_ok=True)
            with suppress(OSError):  # on a full disk what is left to be written cannot be, and need not
                self._file.close()

    def _sweep(self) -> None:
        """What was left by backups to this file that were killed."""
        for path in self.path.parent.iterdir():
            if path.name.startswith(f".{self.path.name}.") and path.name.endswith(PART):
                with suppress(OSError):  # somebody else's
                    if path.lstat().st_mtime < time.time() - PART_LIVES_S:
                        path.unlink()

    def _finish(self) -> None:
        self._add(SUMS, io.BytesIO(msgspec.json.encode(self._sums)))
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def add(self, name: str, data: bytes) -> None:
        self._sums[name] = self._add(name, io.BytesIO(data))

    def add_file(self, name: str, file: IO[bytes]) -> None:
        """The file from its beginning to where it ends now."""
        self._sums[name] = self._add(name, file)

    def add_folder(self, name: str, folder: Path, *, wanted: Callable[[Path], bool]) -> int:
        """The wanted files of a folder, as they are while it goes on being used. Returns how many."""
        count, seen, gone = 0, set[Path](), True
        while gone:
            gone = False
            # Folders go meanwhile as well, which `rglob` does not take before Python 3.12.
            there = {Path(where, name) for where, _, names in os.walk(folder) for name in names} - seen
            seen |= there
            for path in sorted(there):
                if path.is_symlink() or not wanted(path) or (path.exists() and not path.is_file()):
                    continue
                try:
                    with path.open("rb") as file:
                        self.add_file(f"{name}/{path.relative_to(folder).as_posix()}", file)
                    count += 1
                except FileNotFoundError:
                    # Its time was over meanwhile; or it lies there under another name, as a curve does that has ended.
                    gone = True
        return count

    def _add(self, name: str, file: IO[bytes]) -> str:
        entry = tarfile.TarInfo(name)
        entry.size = file.seek(0, os.SEEK_END)
        entry.mode = 0o600
        file.seek(0)
        hashed = _Hashed(file)
        self._tar.addfile(entry, hashed)
        return hashed.sum.hexdigest()


class ArchiveReader:
    """Reads a backup. Raises ArchiveInvalid for what is none, OSError for what cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> None:
        """Reads all of it once, and compares it with its sums."""
        found: dict[str, str] = {}
        told: dict[str, str] | None = None
        for name, file in self.entries():
            if told is not None:
                raise ArchiveInvalid(f"{self.path} has something behind its end.")
            if name == SUMS:
                told = self._decode(b"".join(_pieces(file)))
            elif name in found:
                raise ArchiveInvalid(f"{self.path} holds {name} twice.")
            else:
                found[name] = _sum_of(file)
        if told is None:
            raise ArchiveInvalid(f"{self.path} was cut off: it does not say that it is whole.")
        wrong = sorted(name for name in found.keys() | told.keys() if found.get(name) != told.get(name))
        if wrong:
            raise ArchiveInvalid(f"{self.path} was changed or damaged: {wrong[0]} is not what was written.")

    def entries(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Each entry's name and content, in their order; a content is good until the next is asked for."""
        with self._open() as tar:
            while True:
                try:
                    entry = tar.next()
                except (tarfile.TarError, EOFError) as error:
                    raise ArchiveInvalid(f"{self.path} was cut off or damaged: {error}.") from error
                if entry is None:
                    return
                file = tar.extractfile(entry) if entry.isreg() else None
                if file is None or not _is_ours(entry.name):
                    raise ArchiveInvalid(f"{self.path} holds {entry.name!r}, which no backup has.")
                yield entry.name, file

    @contextmanager
    def _open(self) -> Iterator[tarfile.TarFile]:
        with ExitStack() as opened:
            try:
                tar = opened.enter_context(tarfile.open(self.path, mode="r:"))
            except tarfile.TarError as error:
                raise ArchiveInvalid(f"{self.path} is no backup: {error}.") from error
            yield tar

    def _decode(self, data: bytes) -> dict[str, str]:
        try:
            return decoded(data, dict[str, str])
        except msgspec.DecodeError as error:
            raise ArchiveInvalid(f"{self.path} was damaged: its sums cannot be read.") from error


class _Hashed:
    """A file that is read, and the sum of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sum.update(data)
        return data


def _sum_of(file: IO[bytes]) -> str:
    found = hashlib.sha256()
    for piece in _pieces(file):
        found.update(piece)
    return found.hexdigest()


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """An entry's content. Raises ArchiveInvalid where it ends too early."""
    try:
        while piece := file.read(PIECE):
            yield piece
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveInvalid(f"The backup was cut off: {error}.") from error


def _is_ours(name: str) -> bool:
    """Whether a backup has entries of this name; none leads out of the folder that it belongs in."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return False
    return len(path.parts) == 1 or path.parts[0] in FOLDERS

"""The file of a backup: a tar whose last entry holds the SHA-256 of every other, so that a file that was cut off or
changed is known before anything is done with it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Self

import msgspec

SUMS = "sums.json"
PIECE = 1 << 20
FOLDERS = ("database", "keys", "code", "logs", "metrics")


class ArchiveInvalid(Exception):
    """The file is not a whole backup. The message is one sentence."""


class ArchiveWriter:
    """Writes beside ``path`` and takes its name at the end: a backup that was cut off never has it. Mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.part")
        self._sums: dict[str, str] = {}

    def __enter__(self) -> Self:
        # Made anew: in a folder of everybody's, what lies there under this name may be somebody's to read, or a link.
        self._part.unlink(missing_ok=True)
        self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)
            return
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
        count = 0
        # Folders go meanwhile as well, which `rglob` does not take before Python 3.12.
        there = sorted(Path(where, name) for where, _, names in os.walk(folder) for name in names)
        for path in there:
            if path.is_symlink() or not path.is_file() or not wanted(path):
                continue
            try:
                with path.open("rb") as file:
                    self.add_file(f"{name}/{path.relative_to(folder).as_posix()}", file)
            except FileNotFoundError:  # its time was over meanwhile
                continue
            count += 1
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
                told = self._decode(file.read())
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
            return msgspec.json.decode(data, type=dict[str, str])
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
    hashed = _Hashed(file)
    try:
        while hashed.read(PIECE):
            pass
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveInvalid(f"The backup was cut off: {error}.") from error
    return hashed.sum.hexdigest()


def _is_ours(name: str) -> bool:
    """Whether a backup has entries of this name; none leads out of the folder that it belongs in."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        return False
    return len(path.parts) == 1 or path.parts[0] in FOLDERS

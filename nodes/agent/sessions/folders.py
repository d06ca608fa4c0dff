"""Reads job folders: names, files, and whole folders as a tar archive.

The folder belongs to a hostile user: each step of a path is opened by name within the folder before it and never as a
link, which is read and followed step by step where it stays in the folder, and only plain files are ever opened.
"""

from __future__ import annotations

import errno
import heapq
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.folders import FolderGone, mount_open
from nodes.protocol.messages import Mount
from nodes.protocol.sessions import CHUNK, FileEntry, FolderListing, SessionFault

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
DEEPEST = 128
"""Deepest nesting of folders in an archive; each one takes two descriptors."""
LINKS = 40
"""Links followed on one path, as on Linux."""
TARGET_SHOWN = 300
NAMES_AT_ONCE = 1000
"""Names of one folder that are kept, and sorted, at a time."""
_AWAY = frozenset({errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT})


class FilesFailed(Exception):
    """The request cannot be served. ``message`` is one sentence for people."""

    def __init__(self, fault: SessionFault, message: str) -> None:
        super().__init__(message)
        self.fault, self.message = fault, message


@contextmanager
def path_open(mount: Mount, path: bytes) -> Iterator[tuple[int, bytes]]:
    """(descriptor of the folder that holds it, last name) of ``path`` below the mount's source; for the source itself
    the name is ``.``. Links are followed as long as they stay inside. Raises FilesFailed."""
    steps = path.split(b"/") if path else []
    if any(step in (b"", b".", b"..") or b"\0" in step for step in steps):
        raise FilesFailed(SessionFault.UNFIT, "The path has empty steps, or steps of dots alone.")
    with failures(), mount_open(mount, uid=0, gid=0) as root, _PathWalk(root, mount.target.encode()) as way:
        yield way.walk(steps)


class _PathWalk:
    """Walks from the folder ``root`` on, each step by the descriptor of the one before: nothing that is opened is a
    link. ``inside``: the task's path of that folder, for absolute links; empty: unknown."""

    def __init__(self, root: int, inside: bytes) -> None:
        self._inside = inside
        self._folders = [root]

    def __enter__(self) -> _PathWalk:
        return self

    def __exit__(self, *_: object) -> None:
        self._back(1)

    def walk(self, steps: Iterable[bytes]) -> tuple[int, bytes]:
        """(folder, name) of where the steps lead. Raises OSError, FilesFailed."""
        left, links = [*steps][::-1], list[bytes]()
        while left:
            step = left.pop()
            if step == b"..":
                if len(self._folders) == 1:
                    raise _outward(links[-1])
                self._back(len(self._folders) - 1)
            elif step not in (b"", b"."):
                target = _target(self._folders[-1], step)
                if target is not None:
                    links.append(target)
                    left += self._led(target, len(links))[::-1]
                elif left:
                    self._enter(step)
                else:
                    return self._folders[-1], step
        return self._folders[-1], b"."

    def _led(self, target: bytes, links: int) -> list[bytes]:
        """The steps that replace a link, the ``links``-th one; those of an absolute one start over."""
        if links > LINKS:
            raise FilesFailed(SessionFault.UNFIT, "Links lead to links without an end.")
        steps = target.split(b"/")
        if not target.startswith(b"/"):
            return steps
        here = self._inside.split(b"/")
        if len(here) < 2 or steps[: len(here)] != here:
            raise _outward(target)
        self._back(1)
        return steps[len(here) :]

    def _enter(self, step: bytes) -> None:
        if len(self._folders) > DEEPEST:
            raise FilesFailed(SessionFault.UNFIT, f"Folders lie more than {DEEPEST} deep within each other.")
        self._folders.append(os.open(step, _FOLDER, dir_fd=self._folders[-1]))

    def _back(self, length: int) -> None:
        """Goes back to a path of this many folders; never less than the first."""
        while len(self._folders) > max(length, 1):
            os.close(self._folders.pop())


def _target(folder: int, name: bytes) -> bytes | None:
    """Where a link leads; None for what is none, or is not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _outward(target: bytes) -> FilesFailed:
    where = target.decode(errors="replace")[:TARGET_SHOWN]
    return FilesFailed(SessionFault.UNFIT, f"It is a link that leads out of the job's folder, to {where}.")


@contextmanager
def failures() -> Iterator[None]:
    """Context in which errors of the file system or the storage become FilesFailed."""
    try:
        yield
    except FolderGone as gone:
        raise FilesFailed(SessionFault.MISSING, f"{gone.message[:1].upper()}{gone.message[1:]}.") from gone
    except AttemptFailed as failed:
        raise FilesFailed(SessionFault.AWAY, f"{failed.message[:1].upper()}{failed.message[1:]}.") from failed
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FilesFailed(SessionFault.MISSING, "There is no such file or folder.") from error
    except OSError as error:
        fault = SessionFault.AWAY if error.errno in _AWAY else SessionFault.UNFIT
        raise FilesFailed(fault, f"It cannot be read: {error.strerror}.") from error


def entry_at(folder: int, name: bytes) -> FileEntry:
    """The entry with this name. Raises OSError."""
    facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return FileEntry(name=name, kind=_kind(facts.st_mode), size=facts.st_size, changed_ms=facts.st_mtime_ns // 10**6)


def folder_list(folder: int, name: bytes, *, after: bytes, limit: int) -> FolderListing:
    """The first ``limit`` names behind ``after``, however many there are. Raises OSError."""
    found = os.open(name, _FOLDER, dir_fd=folder)
    try:
        with os.scandir(found) as names:
            behind = (each for one in names if (each := os.fsencode(one.name)) > after)
            chosen = heapq.nsmallest(limit + 1, behind)
        return FolderListing(entries=tuple(_there(found, chosen[:limit])), more=len(chosen) > limit)
    finally:
        os.close(found)


def file_read(folder: int, name: bytes, offset: int, length: int) -> Iterator[bytes]:
    """Bytes of a plain file, fewer where it has shrunk meanwhile. Raises OSError, FilesFailed."""
    file = file_open(folder, name)
    try:
        while length > 0 and (data := os.pread(file, min(length, CHUNK), offset)):
            yield data
            offset, length = offset + len(data), length - len(data)
    finally:
        os.close(file)


def file_open(folder: int, name: bytes) -> int:
    """A plain file's descriptor. Raises OSError, FilesFailed."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise FilesFailed(SessionFault.UNFIT, "It is no plain file.")
    file = os.open(name, _FILE, dir_fd=folder)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise FilesFailed(SessionFault.UNFIT, "It is no plain file.")


def folder_archive(folder: int, name: bytes, title: bytes, write: Callable[[bytes], object]) -> None:
    """Writes the folder as a tar archive under the name ``title``: files, folders and links as such; anything else, and
    what vanishes meanwhile, is left out. A file that grows is cut, one that shrinks is filled with zeros. Raises
    OSError, FilesFailed."""
    out = _Out(write)
    with tarfile.open(
        fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        _archive_folder(archive, folder, name, title, DEEPEST)


def _archive_folder(archive: tarfile.TarFile, folder: int, name: bytes, title: bytes, deeper: int) -> None:
    if deeper == 0:
        raise FilesFailed(SessionFault.UNFIT, f"Folders lie more than {DEEPEST} deep within each other.")
    here = os.open(name, _FOLDER, dir_fd=folder)
    try:
        _add(archive, _member(title, os.fstat(here), tarfile.DIRTYPE))
        with os.scandir(here) as names:
            for some in iter(lambda: sorted(os.fsencode(one.name) for one in islice(names, NAMES_AT_ONCE)), []):
                for one in some:
                    _archive_one(archive, here, one, title + b"/" + one, deeper)
    finally:
        os.close(here)


def _archive_one(archive: tarfile.TarFile, folder: int, name: bytes, title: bytes, deeper: int) -> None:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            _archive_folder(archive, folder, name, title, deeper - 1)
        elif stat.S_ISLNK(facts.st_mode):
            member = _member(title, facts, tarfile.SYMTYPE)
            member.linkname = os.fsdecode(os.readlink(name, dir_fd=folder))
            _add(archive, member)
        elif stat.S_ISREG(facts.st_mode):
            _archive_file(archive, folder, name, title)
    except (FileNotFoundError, NotADirectoryError):
        return


def _archive_file(archive: tarfile.TarFile, folder: int, name: bytes, title: bytes) -> None:
    with open(file_open(folder, name), "rb") as file:
        member = _member(title, os.fstat(file.fileno()), tarfile.REGTYPE)
        _add(archive, member, _Padded(file.read))


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, file: Any = None) -> None:
    """Writes a member and forgets it: ``tarfile`` keeps each for reading the archive again."""
    archive.addfile(member, file)
    archive.getmembers().clear()


def _member(title: bytes, facts: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(os.fsdecode(title))
    member.type, member.mode, member.mtime = kind, stat.S_IMODE(facts.st_mode) & 0o777, int(facts.st_mtime)
    member.uid, member.gid = facts.st_uid, facts.st_gid
    member.size = facts.st_size if kind == tarfile.REGTYPE else 0
    return member


class _Out(io.RawIOBase):
    """Output file of ``tarfile``."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        return len(data)


class _Padded:
    """A file padded with zeros: ``tarfile`` has announced its size already."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def read(self, size: int = 0, /) -> bytes:
        return self._read(size).ljust(size, b"\0")


def _there(folder: int, names: list[bytes]) -> Iterator[FileEntry]:
    for name in names:
        try:
            yield entry_at(folder, name)
        except FileNotFoundError:
            continue


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")

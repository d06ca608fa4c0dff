"""Packed folders: gzip-compressed tar archives of plain files, folders and symbolic links that stay inside.

The one home of what such an archive may hold: the portal checks it at upload, the agent once more while it unpacks. The
archive is read once, forwards, and never held in memory.
"""

from __future__ import annotations

import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import IO

MEDIA_TYPE = "application/gzip"
DEEPEST = 40
LONGEST_NAME, LONGEST_PATH = 255, 1024
_PIECE = 64 * 1024
_LARGEST_HEADER = 64 * 1024
_HEADERS_EACH, _HEADERS_MORE = 4096, 1 << 20
"""Bytes of headers allowed with each path of the archive, and in addition: tarfile takes a microsecond or more for each
byte of them, and a megabyte of zeros unpacks to a gigabyte of headers."""
_GLOBAL_HEADERS = 16
"""Most global headers, each of which is processed for every member; ``git archive`` writes one."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_BROKEN = (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError, RecursionError)


class PackedInvalid(Exception):
    """The archive is none, or holds what a folder of code must not. ``reason`` is one sentence for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PackedTooLarge(PackedInvalid):
    """It unpacks to more than is allowed."""


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that an archive may unpack to: ``unpacked`` bytes of tar, ``entries`` files, folders and links."""

    unpacked: int
    entries: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or link. ``path`` is relative, without dots; ``target`` is a link's."""

    path: str
    kind: Kind
    size: int = 0
    executable: bool = False
    target: str = ""


def packed_read(file: IO[bytes], bounds: Bounds) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    """Each entry with its bytes, in the archive's order; a folder comes before what lies in it, where it is named.

    A file's bytes must be taken before the next entry is, or they are skipped. Raises PackedInvalid, also after the
    last entry; OSError when ``file`` cannot be read.
    """
    unzipped, layout = _Unzipped(file, bounds.unpacked), _Layout(bounds.entries)
    try:
        with tarfile.open(fileobj=unzipped, mode="r:", pax_headers=_Few()) as archive:  # type: ignore[call-overload]  # what it reads by
            while (member := archive.next()) is not None:
                archive.members.clear()  # which tarfile would keep, with all their headers
                entry = layout.entry(member)
                unzipped.headers_most = _HEADERS_MORE + _HEADERS_EACH * layout.paths
                if entry is not None:
                    yield entry, unzipped.pieces(entry.size)
        unzipped.to_end()
    except _BROKEN as error:
        raise PackedInvalid(f"it is no gzip-compressed tar archive, or a damaged one ({error})") from error


def packed_check(file: IO[bytes], bounds: Bounds) -> Bounds:
    """Size of the archive once all of it is found valid: bytes of its files, and entries with the folders that only
    paths name. Raises PackedInvalid."""
    paths: set[str] = set()
    unpacked = 0
    for entry, _ in packed_read(file, bounds):
        paths.update((entry.path, *map(str, PurePosixPath(entry.path).parents)))
        unpacked += entry.size
    return Bounds(unpacked=unpacked, entries=len(paths - {"."}))


class _Few(dict[str, str]):
    """Limits the archive's global headers."""

    def __setitem__(self, keyword: str, value: str) -> None:
        super().__setitem__(keyword, value)
        if len(self) > _GLOBAL_HEADERS:
            raise PackedInvalid(f"it has more than {_GLOBAL_HEADERS} global headers")


class _Unzipped:
    """The tar inside, forwards only, as far as ``tarfile`` needs a file: no more than ``most`` bytes of it, none of its
    headers (which it reads at once) larger than 64 kB, and all so far no more than ``headers_most``.

    By zlib alone: Python's ``gzip`` handles headers, what stands behind the end, and empty members one after another in
    Python, a minute for 100 MB of them.
    """

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._gzip = file, zlib.decompressobj(wbits=31)
        self._most, self._at = most, 0
        self._headers, self.headers_most = 0, _HEADERS_MORE

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Reads headers, the only thing that tarfile reads: files' bytes come from ``pieces``."""
        if not 0 <= size <= _LARGEST_HEADER:
            raise PackedInvalid("one of its headers is larger than 64 kB")
        self._headers += size
        if self._headers > self.headers_most:
            raise PackedInvalid("its headers are larger than those of so few files can be")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = self._unzipped(size)
        self._at += len(data)
        if self._at > self._most:
            raise PackedTooLarge(f"it unpacks to more than {self._most:,} bytes")
        return data

    def _unzipped(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer only at the end."""
        data = b""
        while len(data) < size and not self._gzip.eof:
            packed = self._gzip.unconsumed_tail or self._file.read(_PIECE)
            piece = self._gzip.decompress(packed, size - len(data))
            if not packed and not piece:
                raise EOFError("it ends too early")
            data += piece
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        if position < self._at:
            raise PackedInvalid("one of its headers points backwards")
        while self._at < position and self._take(min(position - self._at, _PIECE)):
            pass
        return self._at

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes. Raises PackedInvalid when there are fewer."""
        while size:
            data = self._take(min(size, _PIECE))
            if not data:
                raise PackedInvalid("it ends in the middle of a file")
            size -= len(data)
            yield data

    def to_end(self) -> None:
        """Reads to the end, for the checksum; only zeros may stand behind it."""
        while self._take(_PIECE):
            pass
        behind = self._gzip.unused_data
        while behind and not behind.strip(b"\0"):
            behind = self._file.read(_PIECE)
        if behind:
            raise PackedInvalid(
                "something stands behind its end; pack the folder in one go: tar -czf code.tar.gz -C DIR ."
            )


class _Layout:
    """Paths seen so far: none twice, none below something that is no folder."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kinds: dict[str, Kind] = {}

    @property
    def paths(self) -> int:
        """Number of paths seen."""
        return len(self._kinds)

    def entry(self, member: tarfile.TarInfo) -> Entry | None:
        """The member as an entry, None for the folder itself. Raises PackedInvalid."""
        parts = _parts(member.name)
        kind = _kind(member)
        if not parts:
            if kind is not Kind.FOLDER:
                raise PackedInvalid("its top is no folder")
            return None
        for depth in range(1, len(parts)):
            self._add("/".join(parts[:depth]), Kind.FOLDER)
        path = "/".join(parts)
        self._add(path, kind)
        if kind is Kind.LINK:
            _check_target(path, len(parts) - 1, member.linkname)
            return Entry(path, kind, target=member.linkname)
        size = member.size if kind is Kind.FILE else 0
        return Entry(path, kind, size=size, executable=bool(member.mode & 0o111))

    def _add(self, path: str, kind: Kind) -> None:
        before = self._kinds.get(path)
        if before is not None and not (before is kind is Kind.FOLDER):
            raise PackedInvalid(f"{path!r} stands in it twice, or above something although it is no folder")
        self._kinds[path] = kind
        if len(self._kinds) > self._most:
            raise PackedTooLarge(f"it holds more than {self._most:,} files and folders")


def _parts(name: str) -> list[str]:
    shown = repr(name[:200])
    if name.startswith("/"):
        raise PackedInvalid(f"{shown} is an absolute path; pack the folder from inside: tar -czf code.tar.gz -C DIR .")
    if _FORBIDDEN.search(name):
        raise PackedInvalid(f"{shown} has control characters in its name, or is not UTF-8")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PackedInvalid(f"{shown} leaves the folder")
    if len(parts) > DEEPEST:
        raise PackedInvalid(f"{shown} lies more than {DEEPEST} folders deep")
    if len(name.encode()) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        raise PackedInvalid(f"the path {shown} is too long")
    return parts


def _kind(member: tarfile.TarInfo) -> Kind:
    if member.isreg() and not member.issparse() and member.size >= 0:
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            raise PackedInvalid(f"{member.name[:200]!r} has the setuid or setgid bit; take it away: chmod ug-s")
        return Kind.FILE
    if member.isdir():
        return Kind.FOLDER
    if member.issym():
        return Kind.LINK
    what = "a hard link" if member.islnk() else "neither a file, a folder nor a symbolic link"
    raise PackedInvalid(f"{member.name[:200]!r} is {what}; only files, folders and symbolic links are taken")


def _check_target(path: str, depth: int, target: str) -> None:
    """Checks that a link stays inside: steps up come before all others, and there are no more of them than folders
    above the link, whatever other links the rest passes. Raises PackedInvalid."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    inside = target and not target.startswith("/") and up <= depth and ".." not in parts[up:]
    if not inside or _FORBIDDEN.search(target) or len(target.encode()) > LONGEST_PATH:
        raise PackedInvalid(f"the link {path!r} leaves the folder, or cannot be followed: {target[:200]!r}")

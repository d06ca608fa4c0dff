"""Packs a folder of code into one archive, always the same for the same files.

What `.gitignore` and `.berthignore` name stays out (in any folder, by git's rules; `.berthignore` has the last word),
and so does `.git`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from pathspec import GitIgnoreSpec

from berth.errors import FolderTooLarge, Misused
from berth.model.jobs import CodeLimits

IGNORE_FILES = (".gitignore", ".berthignore")
NEVER = frozenset({".git"})
MOMENT = 315_532_800
"""The time of every file, 1980-01-01: older ones trouble zip, and the real ones would change the hash."""
LARGEST_SHOWN = 5
_ADVICE = "name what the job does not need in a .berthignore file; data belongs on a storage"


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed folder in a temporary file, which is deleted when it is closed."""

    file: IO[bytes]
    sha256: str
    size: int
    files: int

    @property
    def id(self) -> str:
        """The id in job files."""
        return f"sha256:{self.sha256}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.file.close()


@dataclass(frozen=True, slots=True)
class Found:
    """A file or symbolic link of the folder; ``name`` is its path inside."""

    name: str
    path: Path
    facts: os.stat_result


def pack(folder: str | Path, limits: CodeLimits) -> Archive:
    """The folder's archive, to be closed. Raises Misused, FolderTooLarge."""
    root = Path(folder)
    if not root.is_dir():
        raise Misused(f"{folder} is {'no folder' if root.exists() else 'not there'}: name the folder of your code")
    found = sorted(files_of(root), key=lambda one: one.name)
    if not found:
        raise Misused(f"{folder} holds no file to pack")
    _check(folder, found, limits)
    file = tempfile.TemporaryFile()  # noqa: SIM115  # whoever gets the archive closes it
    try:
        _write(file, found)
        size = file.tell()
        if size > limits.size:
            raise too_large(folder, found, f"packed it takes {_mb(size)}, and {_mb(limits.size)} is the most")
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        return Archive(file, digest, size, len(found))
    except BaseException:
        file.close()
        raise


def files_of(root: Path) -> Iterator[Found]:
    """The files of a folder that are packed. Raises Misused for what cannot be packed."""
    yield from _below(root, PurePosixPath(), ())


def _below(
    folder: Path, inside: PurePosixPath, rules: Sequence[tuple[PurePosixPath, GitIgnoreSpec]]
) -> Iterator[Found]:
    try:
        rules = (*rules, *_rules(folder, inside))
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise Misused(f"{folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        name, path = inside / entry.name, Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or _ignored(name, is_folder, rules):
            continue
        if is_folder:
            yield from _below(path, name, rules)
        else:
            yield Found(str(name), path, entry.stat(follow_symlinks=False))


def _rules(folder: Path, inside: PurePosixPath) -> Iterator[tuple[PurePosixPath, GitIgnoreSpec]]:
    for name in IGNORE_FILES:
        path = folder / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            yield inside, GitIgnoreSpec.from_lines(lines)


def _ignored(name: PurePosixPath, is_folder: bool, rules: Iterable[tuple[PurePosixPath, GitIgnoreSpec]]) -> bool:
    """Whether the last matching rule ignores it; a deeper folder's rules come after its parents'."""
    ignored = False
    for inside, spec in rules:
        verdict = spec.check_file(f"{name.relative_to(inside)}{'/' if is_folder else ''}").include
        ignored = ignored if verdict is None else verdict
    return ignored


def _check(folder: str | Path, found: list[Found], limits: CodeLimits) -> None:
    if len(found) > limits.entries:
        raise too_large(folder, found, f"it holds {len(found):,} files, and {limits.entries:,} is the most")
    total = sum(one.facts.st_size for one in found if stat.S_ISREG(one.facts.st_mode))
    if total > limits.unpacked:
        raise too_large(folder, found, f"its files take {_mb(total)}, and {_mb(limits.unpacked)} is the most")
    for one in found:
        if stat.S_ISLNK(one.facts.st_mode):
            _check_link(one)
        elif not stat.S_ISREG(one.facts.st_mode):
            raise Misused(f"{one.path} is neither a file nor a link: name it in a .berthignore file")


def _check_link(one: Found) -> None:
    target = PurePosixPath(os.readlink(one.path))
    ups = next((place for place, part in enumerate(target.parts) if part != ".."), len(target.parts))
    deep = len(PurePosixPath(one.name).parts) - 1
    if target.is_absolute() or ups > deep or ".." in target.parts[ups:]:
        raise Misused(
            f"the link {one.path} leads out of the folder, to {target}: name it in a .berthignore file, or put a file "
            "in its place"
        )


def too_large(folder: str | Path, found: list[Found], why: str) -> FolderTooLarge:
    """The refusal that names the largest files."""
    largest = sorted(found, key=lambda one: one.facts.st_size, reverse=True)[:LARGEST_SHOWN]
    files = tuple((one.name, one.facts.st_size) for one in largest)
    shown = ", ".join(f"{name} ({_mb(size)})" for name, size in files)
    return FolderTooLarge(f"{folder} is too large: {why}. Its largest files: {shown}; {_ADVICE}", files)


def _mb(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MB"


def _write(file: IO[bytes], found: Iterable[Found]) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for one in found:
            try:
                _add(archive, one)
            except UnicodeEncodeError as error:
                raise Misused(f"the name of {one.path!r} is not UTF-8: rename it") from error
            except OSError as error:
                raise Misused(f"{one.path} cannot be read, or changed meanwhile: {error.strerror or error}") from error


def _add(archive: tarfile.TarFile, one: Found) -> None:
    member = tarfile.TarInfo(one.name)
    member.mtime = MOMENT
    if stat.S_ISLNK(one.facts.st_mode):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, os.readlink(one.path), 0o777
        archive.addfile(member)
        return
    member.size, member.mode = one.facts.st_size, 0o755 if one.facts.st_mode & 0o111 else 0o644
    with one.path.open("rb") as content:
        archive.addfile(member, content)

"""`berth files`: lists and downloads a job's folder."""

from __future__ import annotations

import glob
import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from berth.cli.jobs import AsJson, JobName, session
from berth.cli.screen import clean, say, show, show_json, table, when
from berth.cli.target import job_id
from berth.downloads import Held
from berth.errors import Misused
from berth.model.jobs import File, Job

QUOTE = '"'
MARK = re.compile(r"[0-9a-f]{1,16}-[0-9a-f]{1,16}")
"""How the server tells versions of a file apart."""
UNITS = ("B", "kB", "MB", "GB", "TB")
ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def files(
    ctx: typer.Context,
    job: JobName,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A file or folder below the job folder, as the list shows it.")
    ] = "",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DEST", help="Download it: to this file or into this folder; - prints."),
    ] = None,
    download: Annotated[bool, typer.Option("--download", "-d", help="Download it into this folder: -o .")] = False,
    as_json: AsJson = False,
) -> None:
    """List a job's folder ($BERTH_JOB_DIR), or download from it. A folder comes with all that is in it."""
    with session(ctx).client() as client:
        found = job_id(client, job)
        listed = client.jobs.files(found, path.strip("/"))
        if output is None and not download:
            rows = list(listed)
            if as_json:
                show_json(rows)
            else:
                show(table(("KIND", ">SIZE", "CHANGED", "PATH"), map(_line, rows)))
            return
        first = next(listed, None)
        inside = path.strip("/")
        name = _name(path) if inside else _name_of(client.jobs.get(found))
        if output != "-" and first is not None and first.path == inside:
            _save_file(lambda held: client.download(found, inside, held=held), name, Path(output or "."))
        else:
            _save(client.download(found, inside), name, output or ".")


def _line(file: File) -> tuple[str, str, str, str]:
    slash = "/" if file.kind == "folder" else ""
    return file.kind, _size(file.size) if file.kind == "file" else "", when(file.changed_at), file.path + slash


def _size(size: float) -> str:
    for unit in UNITS[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {UNITS[-1]}"


def _name(path: str) -> str:
    """The last step of a path as a name on this machine, byte by byte. Raises Misused for an invalid name."""
    last = path.strip("/").rpartition("/")[2].encode()
    return _step(os.fsdecode(ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), last)))


def _name_of(job: Job) -> str:
    """Name of the job's whole folder on this machine. Raises Misused for an invalid name."""
    return _step(clean(f"{job.name}-{job.run}"))


def _step(name: str) -> str:
    if name in {os.curdir, os.pardir} or os.path.basename(name) != name:
        raise Misused(f"{clean(name)} is no name of a file.")
    return name


def _save(pieces: Iterator[bytes], name: str, output: str) -> None:
    """Prints a file, or unpacks a folder."""
    if output == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    with _write_errors(target):
        _unpack(pieces, target / name)
    say(f"- saved as {target / name}")


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, tarfile.TarError) as error:
        raise Misused(f"{target} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def _save_file(download: Callable[[Held], Iterator[bytes]], name: str, target: Path) -> None:
    """Saves a file whole or not at all. A download that breaks off leaves its part beside it, and the next one resumes
    it."""
    with _write_errors(target):
        target = target / name if target.is_dir() else target
        held, old = _begun(target)
        pieces = download(held)
        first = next(pieces, b"")  # with it one knows whether it goes on
        part = target.with_name(f".{target.name}.{_named(held.mark) or os.getpid()}.part")
        if old is not None and old != part:
            old.unlink(missing_ok=True)
        if held.begins:
            say(f"- going on behind {_size(held.begins)}")
        try:
            with part.open("ab") as file:
                _alone(file)
                file.truncate(held.begins)
                file.write(first)
                for piece in pieces:
                    file.write(piece)
            part.replace(target)
        finally:
            if not _named(held.mark):
                part.unlink(missing_ok=True)
    say(f"- saved as {target}")


def _begun(target: Path) -> tuple[Held, Path | None]:
    """What an earlier download left there, with its version from its name."""
    parts = [one for one in target.absolute().parent.glob(f".{glob.escape(target.name)}.*.part") if _mark(target, one)]
    if not parts:
        return Held(), None
    part = target.with_name(max(parts, key=lambda one: one.stat().st_mtime).name)
    return Held(part.stat().st_size, f"{QUOTE}{_mark(target, part)}{QUOTE}"), part


def _mark(target: Path, part: Path) -> str:
    return _named(f"{QUOTE}{part.name[len(target.name) + 2 : -len('.part')]}{QUOTE}")


def _named(mark: str) -> str:
    """A version as part of a name; empty where it cannot be."""
    return mark.strip(QUOTE) if MARK.fullmatch(mark.strip(QUOTE)) else ""


def _alone(file: IO[bytes]) -> None:
    """Raises Misused where another download writes there."""
    try:
        import fcntl  # here, so that all works where there are no such locks
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Misused("It is being downloaded to that place already.") from None


def _unpack(pieces: Iterator[bytes], folder: Path) -> None:
    """Unpacks each member as it comes, below the folder, whatever the archive calls it: the server that made it may be
    compromised. What would lie elsewhere, such as a link out of the folder, is left out and named."""
    title = None
    with tarfile.open(fileobj=_Stream(pieces), mode="r|", errors="surrogateescape") as archive:
        for member in archive:
            whole = member.name
            first, _, below = whole.partition("/")
            if title is None:
                title = first
                folder.mkdir(parents=True, exist_ok=True)
            member.name = below or os.curdir
            if first == title and (below or member.isdir()) and _stays(member, folder):
                if hasattr(os, "getuid"):
                    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
                member.mode &= 0o755
                archive.extract(member, folder, **_FILTER)
            else:
                say(f"berth: left out: {clean(whole)}, which would lie elsewhere")


_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python's own check; the first releases of 3.11 have none."""


def _stays(member: tarfile.TarInfo, folder: Path) -> bool:
    """Whether a file, a folder, or a link's target lies in the folder. Nothing is unpacked behind a link made before:
    no packed folder has that, and where such a link leads depends on the release of Python."""
    home = os.path.realpath(folder)
    target = os.path.join(home, member.name)
    around = os.path.dirname(target)
    if os.path.realpath(around) != os.path.normpath(around):
        return False
    leads = [around, os.path.join(around, member.linkname)] if member.issym() else [target]
    inside = all(os.path.commonpath((os.path.realpath(one), home)) == home for one in leads)
    return inside and (member.isreg() or member.isdir() or member.issym())


class _Stream(io.RawIOBase):
    """Pieces as a file, for ``tarfile``."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (piece := next(self._pieces, None)) is not None:
            self._rest += piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

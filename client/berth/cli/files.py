"""`berth files`: what lies in a job's folder, and to take it home."""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from berth.cli.jobs import AsJson, JobName, session
from berth.cli.screen import clean, say, show, show_json, table, when
from berth.cli.target import job_id
from berth.errors import Misused
from berth.model import File

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
        is_file = first is not None and first.path == path.strip("/")
        pieces = client.download(found, path.strip("/"))
        _save(pieces, _name(path) if path.strip("/") else clean(client.jobs.get(found).name), output or ".", is_file)


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
    """The last step of a path as a name on this machine: its very bytes."""
    last = path.strip("/").rpartition("/")[2].encode()
    return os.fsdecode(ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), last))


def _save(pieces: Iterator[bytes], name: str, output: str, is_file: bool) -> None:
    if output == "-":
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    place = Path(output)
    try:
        if is_file:
            place = place / name if place.is_dir() else place
            _save_file(pieces, place)
        else:
            place.mkdir(parents=True, exist_ok=True)
            _unpack(pieces, place)
            place = place / name
    except (OSError, tarfile.TarError) as error:
        raise Misused(f"{place} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    say(f"- saved as {place}")


def _save_file(pieces: Iterator[bytes], place: Path) -> None:
    """Whole or not at all."""
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _unpack(pieces: Iterator[bytes], folder: Path) -> None:
    """Each member as it comes. What would lie elsewhere, such as a link out of the folder, is left out and named."""
    with tarfile.open(fileobj=_Stream(pieces), mode="r|", errors="surrogateescape") as archive:
        for member in archive:
            try:
                archive.extract(member, folder, filter="data")
            except tarfile.FilterError as error:
                say(f"berth: left out: {error}")


class _Stream(io.RawIOBase):
    """Pieces as a file, as ``tarfile`` reads it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (piece := next(self._pieces, None)) is not None:
            self._rest += piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

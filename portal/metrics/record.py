"""The record of a task attempt: a file of points, a line for each, to which the newest are added.

The first hour is kept in points of ten seconds, what follows in minutes; each six hours all of it is written again in
the step in which it has at most 360 points, so that a file never has many more than 720. When the run is over the file
is compressed. Lines that are there twice count once, and one that a killed writer left half is passed over.
"""

from __future__ import annotations

import gzip
import logging
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from portal.metrics.points import Point, coarsened, step_for

log = logging.getLogger(__name__)

FINE_S = 3600
MOST = 360
MINUTE_S = 60
REWRITE_S = MOST * MINUTE_S

_decode = msgspec.json.Decoder(Point).decode


@dataclass(frozen=True, slots=True)
class Records:
    """All records below ``folder``, which every web and worker process shares."""

    folder: Path

    def path(self, attempt: str) -> Path:
        """Where the record of a task attempt lies while it grows."""
        return self.folder / attempt[:2] / f"{attempt}.points"

    def packed(self, attempt: str) -> Path:
        """Where it lies afterwards."""
        return self.path(attempt).with_suffix(".points.gz")

    def read(self, attempt: str) -> list[Point]:
        """Its points in the order of time; none where there is no record."""
        lines = [*_unpacked(self.packed(attempt)).splitlines(), *_content(self.path(attempt)).splitlines()]
        return _once(point for line in lines if (point := _point(line)))

    def add(self, attempt: str, points: Sequence[Point], *, age_s: int, over: bool = False) -> None:
        """Add the points of a minute, at which the task attempt is ``age_s`` seconds old, or ``over``. Raises
        OSError."""
        path = self.path(attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = points if age_s < FINE_S else coarsened(points, MINUTE_S)
        # A line begins with its end: what a killed writer left spoils no line but its own.
        with path.open("ab") as file:
            file.write(b"".join(b"\n" + msgspec.json.encode(point) for point in kept))
        if over:
            _replace(self.packed(attempt), gzip.compress(_text(self.read(attempt)), mtime=0))
            path.unlink()
        elif age_s % REWRITE_S < MINUTE_S <= age_s:
            _replace(path, _text(_shortened(self.read(attempt))))


def _shortened(points: Sequence[Point]) -> Sequence[Point]:
    """Only points with as many bands as the newest can be merged: another release may have written others."""
    points = [point for point in points if len(point.bands) == len(points[-1].bands)]
    if len(points) <= MOST:
        return points
    return coarsened(points, step_for(points[-1].at + points[-1].seconds - points[0].at, MOST - 1))


def _text(points: Iterable[Point]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, points))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(_content(path))
    except (OSError, EOFError, zlib.error) as error:
        log.error("record %s cannot be read: %s", path, error)
        return b""


def _point(line: bytes) -> Point | None:
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _once(points: Iterable[Point]) -> list[Point]:
    """In the order of time, without those whose time another one covers."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.at, -point.seconds)):
        if not found or point.at >= found[-1].at + found[-1].seconds:
            found.append(point)
    return found


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

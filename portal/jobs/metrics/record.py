"""The record of a task attempt: a file of points, a line for each, to which the newest are added.

The first hour is kept in points of ten seconds, what follows in minutes; each six hours all of it is written again in
the step in which it has at most 360 points, so that a file never has many more than 720. Lines that are there twice
count once, and one that a killed writer left half is passed over.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from portal.jobs.metrics.points import Point, coarsened, step_for

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
        """Where the record of a task attempt lies."""
        return self.folder / attempt[:2] / f"{attempt}.points"

    def read(self, attempt: str) -> list[Point]:
        """Its points in the order of time; none where there is no record."""
        try:
            lines = self.path(attempt).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return _once(point for line in lines if (point := _point(line)))

    def add(self, attempt: str, points: Sequence[Point], *, age_s: int) -> None:
        """Add the points of a minute, at which the task attempt is ``age_s`` seconds old. Raises OSError."""
        path = self.path(attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = points if age_s < FINE_S else coarsened(points, MINUTE_S)
        # A line begins with its end: what a killed writer left spoils no line but its own.
        with path.open("ab") as file:
            file.write(b"".join(b"\n" + msgspec.json.encode(point) for point in kept))
        if age_s % REWRITE_S < MINUTE_S <= age_s:
            self._rewrite(path, self.read(attempt))

    def _rewrite(self, path: Path, points: Sequence[Point]) -> None:
        if len(points) <= MOST:
            return
        step = step_for(points[-1].at + points[-1].seconds - points[0].at, MOST - 1)
        _replace(path, coarsened(points, step))


def _point(line: bytes) -> Point | None:
    try:
        return _decode(line)
    except msgspec.MsgspecError:
        return None


def _once(points: Iterable[Point]) -> list[Point]:
    """In the order of time, without those whose time another one covers."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.at, -point.seconds)):
        if not found or point.at >= found[-1].at + found[-1].seconds:
            found.append(point)
    return found


def _replace(path: Path, points: Iterable[Point]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(b"\n".join(map(msgspec.json.encode, points)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

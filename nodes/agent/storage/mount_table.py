"""The kernel's mount table: which mount lies on which, and which are reached from a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

GUARDS = frozenset(("nosuid", "nodev"))
"""Mount options with which nothing left in a file system gives rights: no setuid program, no device."""


class MountPoint(NamedTuple):
    """One mount: its id, its parent's, device and folder, target, and options."""

    id: int
    parent: int
    device: str
    folder: str
    target: str
    options: frozenset[str]

    @property
    def guarded(self) -> bool:
        return self.options >= GUARDS


def mount_table() -> list[MountPoint]:
    """All mounts of this process's namespace. No dead file server can make this hang."""
    return table_of(Path("/proc/self/mountinfo").read_text())


def table_of(text: str) -> list[MountPoint]:
    lines = (line.split() for line in text.splitlines())
    return [
        MountPoint(int(id), int(parent), device, plain(folder), plain(target), frozenset(options.split(",")))
        for id, parent, device, folder, target, options, *_ in lines
    ]


def reached(table: Sequence[MountPoint], path: str) -> list[MountPoint]:
    """The mount in which ``path`` (without links) lies, and those reached below it; without mounts that others
    cover."""
    top = PurePosixPath(path)
    below = [one for one in table if one.target != path and PurePosixPath(one.target).is_relative_to(top)]
    return [holding(table, top), *(one for one in below if holding(table, PurePosixPath(one.target)) == one)]


def holding(table: Sequence[MountPoint], path: PurePosixPath) -> MountPoint:
    """The mount in which a path lies."""
    numbers = {one.id for one in table}
    here = next(one for one in table if one.target == "/" and one.parent not in numbers)
    for target in (*reversed(path.parents), path):
        while above := next((one for one in table if one.parent == here.id and one.target == str(target)), None):
            here = above
    return here


def is_over_itself(table: Sequence[MountPoint], target: str) -> bool:
    """Whether a folder is mounted over itself there."""
    here = holding(table, PurePosixPath(target))
    below = next((one for one in table if one.id == here.parent), None)
    if below is None or here.target != target:
        return False
    covered = PurePosixPath(below.folder) / PurePosixPath(target).relative_to(below.target)
    return (here.device, here.folder) == (below.device, str(covered))


def plain(text: str) -> str:
    """A path without the octal escapes of spaces and the like."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)

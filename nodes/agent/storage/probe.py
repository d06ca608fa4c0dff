"""Probes folders that may lie on a file server, each in a process of its own with a timeout: looking at files of a
server that does not answer hangs, even ``statvfs``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from nodes.agent.storage.mount_table import is_over_itself, mount_table, plain

AWAY = "does not answer: its file server is away"


class MountEntry(NamedTuple):
    """One line of the kernel's list of mounts."""

    target: str
    kind: str
    source: str


class FolderProbe:
    """Probes folders. ``timeout_s``: how long one may take to answer."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._hanging: dict[str, subprocess.Popen[bytes]] = {}

    def hangs(self, root: str) -> bool:
        """Whether the last probe of it has not come back."""
        return root in self._hanging

    def fault(self, root: str) -> str:
        """Why a folder cannot be used; empty where it answers. One that hangs is not probed again before it answers."""
        before = self._hanging.get(root)
        if before is not None:
            if before.poll() is None:
                return f"{root} {AWAY}"
            del self._hanging[root]
        process = subprocess.Popen(
            ["stat", "--file-system", "--format=%T", "--", f"{root}/."], env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            _, errors = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()  # in vain where the kernel waits for the server
            self._hanging[root] = process
            return f"{root} {AWAY}"
        return "" if process.returncode == 0 else last_line(errors, f"{root} cannot be read")


def mounts() -> list[MountEntry]:
    """All mounts in the order in which they were made, from the kernel's own list, which no server can make hang."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [MountEntry(plain(target), kind, plain(source)) for source, target, kind, *_ in lines]


def mounted_at(root: str) -> MountEntry | None:
    """The last mount at that target; None where there is none, or only the folder over itself."""
    last = next((one for one in reversed(mounts()) if one.target == root), None)
    return None if last is None or is_over_itself(mount_table(), root) else last


def last_line(errors: bytes, otherwise: str) -> str:
    """A command's last error line, without the pointer to the kernel's log that `mount` adds."""
    lines = [line for line in errors.decode(errors="replace").strip().splitlines() if "dmesg(1)" not in line]
    return lines[-1].strip()[:300] if lines else otherwise

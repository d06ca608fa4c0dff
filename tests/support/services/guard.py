"""Ends what a test run has started, also when the run itself was killed.

Runs as a process of its own, in its own session, and reads its standard input: one line for each thing it has
to end (`+group 4711`, `+folder /tmp/x`, `+bridge br0`) or may forget (`-group 4711`). When the input ends, by
closing or by the death of the test run, it ends them all. Standard library only, Linux only.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


class Guard:
    """The test run's side: tells the guarding process what there is to end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def add(self, kind: str, name: str | int) -> None:
        self._tell(f"+{kind} {name}")

    def forget(self, kind: str, name: str | int) -> None:
        self._tell(f"-{kind} {name}")

    def close(self) -> None:
        """End everything now and wait until it is gone."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    things: dict[str, None] = {}
    for line in sys.stdin:
        thing = line.strip()[1:]
        if line.startswith("+"):
            things[thing] = None
        else:
            things.pop(thing, None)
    of_kind = [thing.split(" ", 1) for thing in things]
    folders = [name for kind, name in of_kind if kind == "folder"]
    end_groups([int(name) for kind, name in of_kind if kind == "group"])
    for folder in folders:
        end_outliving(folder)
        unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)
    for kind, name in of_kind:
        if kind == "bridge":
            subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)


def end_groups(groups: list[int]) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def end_outliving(folder: str) -> None:
    """Kill what left its group: container shims over `folder`, tasks that were told of it, and all below them."""
    end = time.monotonic() + 5
    while (doomed := outliving(folder)) and time.monotonic() < end:
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def outliving(folder: str) -> list[int]:
    parents = dict(_parents())
    known = {pid for pid in parents if _is_shim_over(folder, pid) or folder in _text(pid, "environ")}
    below = [pid for pid in parents if _has_ancestor(pid, known, parents)]
    return [*below, *sorted(known)]


def _is_shim_over(folder: str, pid: int) -> bool:
    command = _text(pid, "cmdline")
    return "containerd-shim" in command and folder in command


def unmount_below(folder: str) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(folder + "/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)


def _parents() -> list[tuple[int, int]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found.append((int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])))
    return found


def _text(pid: int, name: str) -> str:
    """A file of /proc; empty for a process that is gone or that may not be read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _has_ancestor(pid: int, wanted: set[int], parents: dict[int, int]) -> bool:
    parent = parents.get(pid, 0)
    while parent > 1:
        if parent in wanted:
            return True
        parent = parents.get(parent, 0)
    return False


if __name__ == "__main__":
    main()

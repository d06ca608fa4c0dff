"""Parent process of a task of the ``process`` runtime: standard library only, run as ``python -I -S wrapper.py
FOLDER``.

It takes the order as JSON from standard input, so that no secret lies on disk, claims the folder by making
``wrapper.json``, runs the command in a session of its own, writes its output as log records into ``out/``, and at the
end kills what the command left behind and writes ``exit.json``. It outlives the agent.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RECORD_HEADER = struct.Struct(">QBI")
SEGMENT_BYTES = 16 * 1024 * 1024
SEGMENTS = 64
CHUNK = 60 * 1024
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
_libc = ctypes.CDLL(None, use_errno=True)


class Output:
    """Segments of log records, each named by its number and the bytes of both streams before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._taken = {1: 0, 2: 0}
        self._file = self._open()

    def write(self, stream: int, payload: bytes) -> None:
        if self._file.tell() >= SEGMENT_BYTES:
            self._file.close()
            self._file = self._open()
        self._file.write(RECORD_HEADER.pack(time.time_ns(), stream, len(payload)) + payload)
        self._taken[stream] += len(payload)

    def full(self) -> bool:
        """Whether the reader is so far behind that the command must wait."""
        return self._file.tell() >= SEGMENT_BYTES and len(os.listdir(self._folder)) >= SEGMENTS

    def _open(self) -> Any:
        name = f"{self._number:08d}-{self._taken[1]}-{self._taken[2]}.rec"
        self._number += 1
        return (self._folder / name).open("wb", buffering=0)


def start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot: with the pid it identifies a process for good."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def write_once(path: Path, data: dict[str, Any]) -> bool:
    """Writes a JSON file atomically; False when it exists already."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def restrict(limits: dict[str, int]) -> None:
    """Runs in the child before the command: sets limits, forbids new privileges, ties its life to the wrapper."""
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        top = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (top, top))
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def launch(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    owner = {}
    if order.get("uid") is not None:
        owner = {"user": order["uid"], "group": order["gid"], "extra_groups": order["groups"]}
    return subprocess.Popen(
        order["command"],
        env=order["env"],
        cwd=order["folder"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: restrict(order["limits"]),
        **owner,
    )


def children() -> list[int]:
    """Pids of this process's children: with a subreaper, everything that the command left behind ends up here."""
    tasks = Path("/proc/self/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def kill_rest() -> None:
    """Kills what is left of the command, as the end of a container's first process would."""
    while True:
        for pid in children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def copy_until_end(child: subprocess.Popen[bytes], output: Output) -> int:
    """Writes the command's output until it has ended; then what is left in the pipes. Returns its status."""
    selector = selectors.DefaultSelector()
    for stream, pipe in ((1, child.stdout), (2, child.stderr)):
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, selectors.EVENT_READ, stream)
    ended = os.pidfd_open(child.pid)
    selector.register(ended, selectors.EVENT_READ, 0)
    while child.poll() is None:
        while output.full() and child.poll() is None:
            time.sleep(0.05)
        for key, _ in selector.select():
            if key.data and not copy_some(key.fd, key.data, output):
                selector.unregister(key.fileobj)
    code = child.returncode
    kill_rest()
    for key in list(selector.get_map().values()):
        while key.data and copy_some(key.fd, key.data, output):
            pass
    return 128 - code if code < 0 else code


def copy_some(pipe: int, stream: int, output: Output) -> bool:
    """One read; False at the end of the pipe and when there is nothing now."""
    try:
        payload = os.read(pipe, CHUNK)
    except BlockingIOError:
        return False
    if payload:
        output.write(stream, payload)
    return bool(payload)


def main(folder: Path) -> None:
    order = json.load(sys.stdin)
    if not write_once(folder / "wrapper.json", {"pid": os.getpid(), "start": start_time(os.getpid())}):
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the command would inherit
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started_ms = time.time_ns() // 1_000_000
    try:
        child = launch(order)
    except (OSError, subprocess.SubprocessError) as error:
        write_once(folder / "exit.json", {"code": 128, "error": str(error), "ended_ms": started_ms})
        return
    write_once(folder / "child.json", {"pid": child.pid, "started_ms": started_ms})
    code = copy_until_end(child, Output(folder / "out"))
    write_once(folder / "exit.json", {"code": code, "error": "", "ended_ms": time.time_ns() // 1_000_000})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Guards storages in which jobs write by the mount options ``nosuid,nodev``: root in a container is root on its server,
and a setuid program left there would give root to whoever runs it outside.

``python -m nodes.agent.storage.nosuid ABOVE ROOT MODE`` guards one storage and prints a ``GuardResult`` as JSON;
``MODE``: ``bind``, ``remount`` or ``look``. A process of its own, since opening a folder of a dead file server hangs.
Killed at any moment, the next one continues. See ``docs/decisions/storages.md``.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath

import msgspec

from nodes.agent.storage.mount_table import MountPoint, mount_table, reached
from nodes.agent.storage.probe import AWAY
from nodes.protocol.decoding import decoded

TIMEOUT_S = 5.0
MOST = 1000
"""Most mounts below a storage that are guarded at a time."""
LOCK = Path("/run/berth-guard.lock")
"""Keeps two agents of one server from both mounting a folder over itself."""
SERVERS_MOUNTS = "/proc/1/ns/mnt"
_HOME = Path(__file__).parents[3]
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _NOSYMFOLLOW, _BIND, _REC = 1, 2, 4, 8, 32, 256, 4096, 16384
_KEPT = {"ro": _RDONLY, "noexec": _NOEXEC, "nosymfollow": _NOSYMFOLLOW}
"""Options that a remount would lose unless they are repeated; the kernel keeps those about times."""


class GuardMode(StrEnum):
    """What may be done to guard a storage."""

    BIND = "bind"  # a folder that is no mount is mounted over itself
    REMOUNT = "remount"  # only what is mounted already gets the options
    LOOK = "look"  # nothing


class GuardResult(msgspec.Struct, frozen=True):
    """``real``: the storage's path without links; ``fault``: the first thing that went wrong."""

    real: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class UnguardedMount:
    """A mount in which setuid programs and devices count; ``folder``: a storage lies in it as a plain folder, which has
    to be mounted over itself."""

    mount: MountPoint
    folder: bool


def unguarded_mounts(real: str, how: GuardMode) -> list[UnguardedMount]:
    """Unguarded mounts of a storage at ``real``. With ``REMOUNT`` a plain folder is left out: no task of that runtime
    is root."""
    found = [
        UnguardedMount(one, folder=not PurePosixPath(one.target).is_relative_to(real))
        for one in reached(mount_table(), real)
        if not one.guarded
    ]
    return [one for one in found if not (one.folder and how is GuardMode.REMOUNT)]


def mount_refusal() -> str:
    """Why this agent cannot mount anything that its server would see; empty where it may try."""
    if os.geteuid() != 0:
        return "its agent is not root"
    try:
        apart = os.readlink(SERVERS_MOUNTS) != os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""  # the mount itself will tell
    return "its agent has mounts of its own, as in a container" if apart else ""


class MountGuard:
    """Guards the storages of one node. ``above``: the folders below which they lie; ``binds``: tasks here may be root,
    so that a plain folder is guarded too, unless it shall be a mount (``is_mount``)."""

    def __init__(self, above: Sequence[str], *, binds: bool, timeout_s: float = TIMEOUT_S) -> None:
        self._above, self._binds, self._timeout_s = above, binds, timeout_s
        self._real: dict[str, str] = {}
        self._hanging: dict[str, subprocess.Popen[bytes]] = {}

    def guard_now(self, root: str, *, is_mount: bool) -> None:
        """Guards it before a task writes there; hangs where its file server does. Raises nothing: ``fault`` reports
        what could not be guarded."""
        if mount_refusal():
            return
        how = self._how(is_mount)
        with suppress(OSError):
            if unguarded_mounts(_real(self._allowed_root(root), root), how):
                self._guard(root, how)

    def fault(self, root: str, *, is_mount: bool) -> str:
        """Guards it where needed; why it could not be guarded, empty where it is. Once its real path is known, only the
        kernel's table is read."""
        how = self._how(is_mount)
        why = mount_refusal()
        if why or (root in self._real and not unguarded_mounts(self._real[root], how)):
            return self.look(root, is_mount=is_mount)
        done = self._guard(root, how)
        return self._result(root, how, done.fault)

    def look(self, root: str, *, is_mount: bool) -> str:
        """The same without doing anything."""
        done = GuardResult() if root in self._real else self._guard(root, GuardMode.LOOK)
        return self._result(root, self._how(is_mount), done.fault or mount_refusal())

    def _result(self, root: str, how: GuardMode, why: str) -> str:
        if root not in self._real:
            return unguarded(root, why)
        left = unguarded_mounts(self._real[root], how)
        return unguarded(_target_of(left[0], self._real[root]), why or "nobody has yet") if left else ""

    def _how(self, is_mount: bool) -> GuardMode:
        return GuardMode.BIND if self._binds and not is_mount else GuardMode.REMOUNT

    def _guard(self, root: str, how: GuardMode) -> GuardResult:
        """Runs in a process of its own; a hanging one is waited for before there is another."""
        before = self._hanging.get(root)
        if before is not None and before.poll() is None:
            return GuardResult(fault=AWAY)
        process = _spawn([self._allowed_root(root), root, how])
        try:
            output, _ = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()  # in vain where the kernel waits for the server
            self._hanging[root] = process
            return GuardResult(fault=AWAY)
        done = _decode_result(output, process.returncode)
        if done.real:
            self._real[root] = done.real
        return done

    def _allowed_root(self, root: str) -> str:
        """The nearest of the administrator's folders; it may be a link itself."""
        return max((one for one in self._above if PurePosixPath(root).is_relative_to(one)), key=len, default=root)


def unguarded(target: str, why: str) -> str:
    return f"setuid programs that jobs leave there count on this server: {target} is not mounted nosuid,nodev ({why})"


def cure(root: str) -> str:
    """What an administrator does where the agent cannot."""
    return (
        f"Mount it nosuid,nodev: in /etc/fstab, a mount has these among its options, a plain folder the line "
        f"`{root} {root} none rbind,nosuid,nodev 0 0`; at once: mount --bind {root} {root}; "
        f"mount -o remount,bind,nosuid,nodev {root}. Then start the agent anew."
    )


def _real(above: str, root: str) -> str:
    """The path without the administrator's links; users' folders begin below ``above``, where links are refused. Raises
    OSError."""
    return str(Path(above).resolve(strict=True) / PurePosixPath(root).relative_to(above))


def _target_of(one: UnguardedMount, real: str) -> str:
    return real if one.folder else one.mount.target


def _spawn(words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "nodes.agent.storage.nosuid", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True, cwd=_HOME,
    )  # fmt: skip


def _decode_result(output: bytes, status: int) -> GuardResult:
    try:
        return decoded(output, GuardResult)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return GuardResult(fault=f"the look at it ended with status {status}")


# ------------------------------------------------------------ in that process


def guard_storage(above: str, root: str, how: GuardMode) -> GuardResult:
    """Guards one storage as far as possible; one fault keeps no other mount from it."""
    try:
        real = _real(above, root)
        os.close(_open_path(real, os.O_DIRECTORY))
    except OSError as error:
        return GuardResult(fault=str(error.strerror))
    if how is GuardMode.LOOK:
        return GuardResult(real)
    faults = [_fault_of(partial(_bind, real))] if any(one.folder for one in unguarded_mounts(real, how)) else []
    found = [one.mount for one in unguarded_mounts(real, how) if not one.folder]
    faults += [_fault_of(partial(_remount, mount)) for mount in found[:MOST]]
    return GuardResult(real, next(filter(None, faults), ""))


def _fault_of(act: Callable[[], None]) -> str:
    """Why an action failed; empty where it did not."""
    try:
        act()
    except OSError as error:
        forbidden = error.errno in (errno.EPERM, errno.EACCES)
        return "its agent may not mount" if forbidden else str(error.strerror)
    return ""


def _bind(real: str) -> None:
    """Mounts a folder over itself, with what is mounted in it. Raises OSError."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(one.folder for one in unguarded_mounts(real, GuardMode.BIND)):
            folder = _open_path(real, os.O_DIRECTORY)
            try:
                _mount(f"/proc/self/fd/{folder}", folder, _BIND | _REC)
            finally:
                os.close(folder)


def _remount(one: MountPoint) -> None:
    """Adds the options to a mount, which keeps its own. Raises OSError."""
    fd = _open_path(one.target, 0)
    try:
        if _mount_of(fd) != one.id:
            raise OSError(0, f"{one.target} leads elsewhere")
        kept = sum(flag for word, flag in _KEPT.items() if word in one.options)
        _mount(None, fd, _REMOUNT | _BIND | _NOSUID | _NODEV | kept)
    finally:
        os.close(fd)


def _open_path(path: str, last: int) -> int:
    """Opens a path step by step, through no link. Raises OSError."""
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    steps = PurePosixPath(path).parts[1:]
    for number, step in enumerate(steps, 1):
        kind = os.O_DIRECTORY if number < len(steps) else last
        try:
            fd, before = os.open(step, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=fd), fd
        except OSError:
            os.close(fd)
            raise
        os.close(before)
    return fd


def _mount_of(fd: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))


def _mount(source: str | None, target: int, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    encoded = source.encode() if source else None
    if libc.mount(encoded, f"/proc/self/fd/{target}".encode(), None, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    done = guard_storage(sys.argv[1], sys.argv[2], GuardMode(sys.argv[3]))
    print(msgspec.json.encode(done).decode())

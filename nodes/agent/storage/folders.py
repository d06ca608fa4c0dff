"""Folders of storages on the node: opened step by step without following symbolic links, made where allowed.

A mount's source must lie below its storage's root. The last folders belong to users, who could put a link in their
place; so each step is opened by name within the folder before it, and a link is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from nodes.agent.runtimes.base import AttemptFailed
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec, Mount
from nodes.protocol.states import Cause

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
USER_FOLDER_MODE = 0o700
"""Mode of folders made for a user: nobody else on the storage sees into them."""
LEASE_FOLDER_MODE = 0o755
_UNGIVEN = stat.S_ISVTX | 0o700
"""Mode of a new folder until its owner has it: nobody else may enter it, and nobody makes such ones by hand (mount
points on the other hand are often root's with 0700 or 000)."""
_LATEST_MS = 1 << 53


class Owner(NamedTuple):
    """The user that a folder is made for."""

    uid: int
    gid: int


class FolderGone(AttemptFailed):
    """The storage is here, and the folder is not in it."""


def mounts_prepare(spec: ContainerSpec) -> None:
    """Checks every mount of the spec, makes missing folders where allowed, and the folder of its lease.

    Raises ``AttemptFailed``: STORAGE_MISSING when the storage is not here, a folder cannot be the task's, or somebody
    could have a path leave its root, REFUSED when one does.
    """
    for mount in spec.mounts:
        with mount_open(mount, uid=spec.uid, gid=spec.gid, by_name=True) as folder:
            if mount.create and not mount.read_only:
                _is_not_roots(folder, mount.source, 0o077, spec)
    lease = lease_location(spec)
    if lease is not None:
        mount, _ = lease
        with mount_open(mount, uid=spec.uid, gid=spec.gid) as folder:
            _lease_folder(folder, lease, spec)


def lease_location(spec: ContainerSpec) -> tuple[Mount, PurePosixPath] | None:
    """(mount that holds the lease, the lease's path below its source); None when the spec has no lease.

    Raises ``AttemptFailed`` when the lease lies in none of its writable mounts.
    """
    if spec.lease is None:
        return None
    return _location_of(spec.lease, [mount for mount in spec.mounts if not mount.read_only], wordings.LEASE())


def checkpoint_location(spec: ContainerSpec) -> tuple[Mount, PurePosixPath] | None:
    """The same for the job's checkpoint file, in any of the spec's mounts."""
    return None if spec.checkpoint is None else _location_of(spec.checkpoint, spec.mounts, wordings.CHECKPOINT())


def _location_of(text: str, mounts: Iterable[Mount], what: str) -> tuple[Mount, PurePosixPath]:
    path = PurePosixPath(text)
    holders = [mount for mount in mounts if PurePosixPath(mount.source) in path.parents]
    if not holders or ".." in path.parts:
        raise AttemptFailed(Cause.INVALID, wordings.NOWHERE(what=what))
    mount = max(holders, key=lambda m: len(m.source))
    return mount, path.relative_to(mount.source)


def steps_location(spec: ContainerSpec) -> tuple[Mount, PurePosixPath] | None:
    """The same for the file in which the job tells its steps."""
    return None if spec.steps_file is None else _location_of(spec.steps_file, spec.mounts, wordings.STEPS())


def lease_target(spec: ContainerSpec) -> str | None:
    """The lease's path inside the container."""
    location = lease_location(spec)
    return None if location is None else str(PurePosixPath(location[0].target) / location[1])


def own_job_folder(spec: ContainerSpec) -> str | None:
    """``$BERTH_JOB_DIR`` where no storage lies there: a folder of the task's own, which goes with it."""
    if spec.job_dir is None or any(PurePosixPath(spec.job_dir).is_relative_to(mount.target) for mount in spec.mounts):
        return None
    return spec.job_dir


@contextlib.contextmanager
def mount_open(mount: Mount, *, uid: int, gid: int, by_name: bool = False) -> Iterator[int]:
    """The folder ``mount.source`` as a descriptor. Missing folders are made when the mount says so. ``by_name``: it is
    about to be bound by its path, so nobody may be able to replace it."""
    steps = _steps_below(mount)
    try:
        folder = os.open(Path(mount.root).resolve(strict=True), FOLDER)
    except OSError as error:
        raise AttemptFailed(
            Cause.STORAGE_MISSING, wordings.STORAGE_FAILED(name=mount.storage, why=error.strerror, root=mount.root)
        ) from error
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, folder)
        # Of the folder that is open, not of its name: what is unmounted in between is noticed.
        if mount.must_be_mount and os.fstat(folder).st_dev == os.stat(f"{mount.root}/..").st_dev:
            raise AttemptFailed(Cause.STORAGE_MISSING, wordings.NOT_MOUNTED(name=mount.storage, root=mount.root))
        if by_name and steps:
            _stays(folder, mount, uid)
        for step in steps:
            folder = _enter(folder, step, mount, Owner(uid, gid))
            stack.callback(os.close, folder)
        yield folder


def _stays(root: int, mount: Mount, uid: int) -> None:
    """Refuses a root in which users could swap a folder for a link after the last check. Raises ``AttemptFailed``.

    A sticky bit keeps nobody from renaming what is theirs. Its owner counts only where that is the task's user: what
    any other number means depends on the file server. An agent that is not root asks no Engine for mounts."""
    facts = os.fstat(root)
    if os.geteuid() == 0 and (facts.st_mode & 0o022 or facts.st_uid == uid != 0):
        commands = f"chown root {mount.root}; chmod go-w {mount.root}"
        raise AttemptFailed(Cause.STORAGE_MISSING, wordings.BY_USERS(path=mount.root, commands=commands))


def file_touch(root: str, path: str) -> None:
    """Sets the times of a file below ``root`` to now, following no link. Raises OSError."""
    with _folder_of(root, path) as (folder, name):
        os.utime(name, dir_fd=folder, follow_symlinks=False)


def file_changed_ms(root: str, path: str) -> int | None:
    """When a file or folder below ``root`` last changed, in unix ms; None when there is none. Follows no link."""
    try:
        with _folder_of(root, path) as (folder, name):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    changed = facts.st_mtime_ns // 1_000_000
    # Its owner sets the time as they like: one that no message could carry tells nothing.
    return changed if not stat.S_ISLNK(facts.st_mode) and 0 < changed < _LATEST_MS else None


@contextlib.contextmanager
def _folder_of(root: str, path: str) -> Iterator[tuple[int, str]]:
    """(folder of ``path``, opened step by step from ``root``; name of the last step). Raises OSError."""
    *steps, name = PurePosixPath(path).relative_to(root).parts
    with contextlib.ExitStack() as stack:
        folder = os.open(Path(root).resolve(strict=True), FOLDER)
        stack.callback(os.close, folder)
        for step in steps:
            folder = os.open(step, FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder, name


def _steps_below(mount: Mount) -> tuple[str, ...]:
    source = PurePosixPath(mount.source)
    if not source.is_relative_to(mount.root) or ".." in source.parts:
        raise AttemptFailed(Cause.REFUSED, wordings.NOT_BELOW(path=mount.source, name=mount.storage))
    return source.relative_to(mount.root).parts


def _enter(folder: int, step: str, mount: Mount, owner: Owner) -> int:
    """Opens (makes) one folder inside ``folder``."""
    if mount.create and not mount.read_only:
        _make(folder, step, USER_FOLDER_MODE, owner, mount.storage)
    try:
        return os.open(step, FOLDER, dir_fd=folder)
    except FileNotFoundError as error:
        raise FolderGone(Cause.STORAGE_MISSING, wordings.NO_FOLDER(name=mount.storage, path=mount.source)) from error
    except OSError as error:
        raise AttemptFailed(
            Cause.REFUSED, wordings.NOT_PLAIN_FOR(path=mount.source, step=step, why=error.strerror)
        ) from error


def _make(folder: int, name: str, mode: int, owner: Owner, storage: str) -> None:
    """Makes a folder with an owner; an existing one stays as it is. Raises ``AttemptFailed``.

    Until it is the owner's it has the mode ``_UNGIVEN``, by which the next caller knows that its maker was killed, or
    is about to hand it over, and hands it over too."""
    as_root = os.geteuid() == 0
    try:
        os.mkdir(name, _UNGIVEN if as_root else mode, dir_fd=folder)
    except FileExistsError:
        made = False
    except OSError as error:
        raise AttemptFailed(_cause(error), wordings.NOT_MADE(name=name, why=error.strerror)) from error
    else:
        made = True
    if as_root:
        _give(folder, name, mode, owner, storage, made=made)


def _give(folder: int, name: str, mode: int, owner: Owner, storage: str, *, made: bool) -> None:
    """Hands a new folder over to its owner, or removes it again."""
    try:
        new = os.open(name, FOLDER, dir_fd=folder)
    except OSError as error:
        if made:
            raise _ungiven(folder, name, owner, storage, error) from error
        return  # what it is instead is told by who enters it
    try:
        facts = os.fstat(new)
        # Its user could have put another one in its place, which is not given away with what is in it.
        if (made or stat.S_IMODE(facts.st_mode) & ~stat.S_ISGID == _UNGIVEN) and not os.listdir(new):
            os.fchown(new, *owner)
            os.fchmod(new, mode | facts.st_mode & stat.S_ISGID)
    except OSError as error:
        raise _ungiven(folder, name, owner, storage, error) from error
    finally:
        os.close(new)


def _ungiven(folder: int, name: str, owner: Owner, storage: str, error: OSError) -> AttemptFailed:
    """The failure of a handover; the folder is removed, so that nobody takes it for the owner's."""
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=folder)
    if error.errno in (errno.EPERM, errno.EACCES):
        return AttemptFailed(_cause(error), wordings.SQUASHED(name=name, uid=owner.uid, storage=storage))
    return AttemptFailed(_cause(error), wordings.NOT_GIVEN(name=name, uid=owner.uid, why=error.strerror))


def _cause(error: OSError) -> Cause:
    return Cause.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Cause.STORAGE_MISSING


def _is_not_roots(folder: int, path: str, rights: int, spec: ContainerSpec) -> None:
    """Refuses a folder of root's without ``rights`` to a task that is not root, which would run without its files and
    its lease. Such a folder is not taken over: it may be a mount point, or be locked on purpose. Raises
    ``AttemptFailed``."""
    facts = os.fstat(folder)
    if spec.profile == "user" and spec.uid != 0 and facts.st_uid == 0 and not facts.st_mode & rights:
        message = wordings.IS_ROOTS(path=path, uid=spec.uid, owner=f"{spec.uid}:{spec.gid}")
        raise AttemptFailed(Cause.STORAGE_MISSING, message)


def _lease_folder(folder: int, lease: tuple[Mount, PurePosixPath], spec: ContainerSpec) -> None:
    """Makes the folders between the mount and the lease, which the task must be able to write."""
    mount, path = lease
    with contextlib.ExitStack() as stack:
        for step in path.parts[:-1]:
            _make(folder, step, LEASE_FOLDER_MODE, Owner(spec.uid, spec.gid), mount.storage)
            try:
                folder = os.open(step, FOLDER, dir_fd=folder)
            except OSError as error:
                raise AttemptFailed(Cause.REFUSED, wordings.NOT_PLAIN(step=step, path=mount.source)) from error
            stack.callback(os.close, folder)
            _is_not_roots(folder, str(PurePosixPath(mount.source, step)), 0o022, spec)


def lease_reading(root: str, path: str) -> tuple[int, bytes] | None:
    """(change time in ns, first bytes) of a lease; None when there is none. Follows no link."""
    with contextlib.ExitStack() as stack:
        try:
            folder, name = stack.enter_context(_folder_of(root, path))
        except OSError:
            return None
        return lease_at(folder, name)


def head_read(root: str, path: str, size: int) -> bytes:
    """The first bytes of a plain file below ``root``. Follows no link, and waits for no FIFO's writer. Raises OSError:
    FileNotFoundError where there is none, of errno ELOOP for a link, EINVAL for what else is no plain file."""
    with _folder_of(root, path) as (folder, name):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, "no plain file")
            return os.read(file, size)
        finally:
            os.close(file)


def lease_at(folder: int, name: str) -> tuple[int, bytes] | None:
    """The same for a lease in an open folder."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        return (facts.st_mtime_ns, os.read(file, 256)) if stat.S_ISREG(facts.st_mode) else None
    finally:
        os.close(file)

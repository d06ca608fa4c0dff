"""Targets of a container's mounts, and the check that each mount lies there: no link moves one."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.folders import FOLDER, mount_open
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec
from nodes.protocol.states import Cause

ACCOUNT_FILES = ("/etc/passwd", "/etc/group")


def path_plain(path: str) -> str:
    """An absolute path without ``.``, ``..`` and double slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def is_within(path: str, folder: str) -> bool:
    """Whether a plain path lies in a folder; a folder is within itself."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def mount_targets(spec: ContainerSpec) -> list[str]:
    """Plain paths of storages in the container, and of its code where it has any."""
    code = [spec.workdir] if spec.code is not None else []
    return [path_plain(target) for target in (*code, *(mount.target for mount in spec.mounts))]


def mounts_stay(spec: ContainerSpec, leads: Mapping[str, str], workspace: Path) -> None:
    """Checks that every mount lies where its target says. ``leads``: where the image's links lead each target;
    ``workspace``: the folder of the job's code on the node. Raises ``AttemptFailed``."""
    for target in mount_targets(spec):
        if leads[target] != target:
            raise AttemptFailed(
                Cause.INVALID,
                wordings.LINK_LEADS(path=target, place=leads[target]),
            )
        if any(is_within(file, target) for file in ACCOUNT_FILES):
            raise AttemptFailed(Cause.INVALID, wordings.USERS_THERE(path=target))
        _nested_stays(spec, target, workspace)


def _nested_stays(spec: ContainerSpec, target: str, workspace: Path) -> None:
    """The same check for a mount inside another one, whose files are a user's."""
    around = [other for other in mount_targets(spec) if other != target and is_within(target, other)]
    if not around:
        return
    outer = max(around, key=len)
    steps = posixpath.relpath(target, outer).split("/")
    with ExitStack() as stack:
        mount = next((one for one in spec.mounts if path_plain(one.target) == outer), None)
        try:
            if mount is None:
                folder = os.open(workspace, FOLDER)
                stack.callback(os.close, folder)
            else:
                folder = stack.enter_context(mount_open(mount, uid=spec.uid, gid=spec.gid))
            for step in steps:
                folder = os.open(step, FOLDER, dir_fd=folder)
                stack.callback(os.close, folder)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise AttemptFailed(
                    Cause.STORAGE_MISSING, wordings.NOT_LOOKED_AT(path=target, why=error.strerror)
                ) from error
            raise AttemptFailed(Cause.INVALID, wordings.LINK_OR_FILE(path=target, folder=outer)) from error

"""Findings about disks and storages: where tasks and their logs are written, mounts, NFS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from nodes.agent.check.finding import Finding, failed, ok, warning
from nodes.agent.config.options import Options
from nodes.agent.config.policy import PolicyInvalid, policy_load
from nodes.agent.disk.guard import free_percent
from nodes.agent.storage.mounts import is_mount, storages_path, wishes_load
from nodes.agent.storage.nosuid import MountGuard, cure, mount_refusal
from nodes.agent.storage.probe import AWAY, FolderProbe, mounted_at, mounts

TIMEOUT_S = 5.0
HELPERS = "/sbin:/usr/sbin"
"""Where `mount` looks for its NFS helper."""


def disk_findings(options: Options, docker_folder: str) -> Iterator[Finding]:
    """Findings about disk space. ``docker_folder``: where the Engine keeps images and containers; empty where there is
    none. A disk that both are on is listed once."""
    state = _nearest(options.state_dir)
    if not docker_folder:
        yield _disk(options, "disk", state, "Make room: the state folder's disk keeps the logs that wait.")
        return
    containers = docker_folder if os.path.isdir(docker_folder) else "/"
    same = os.stat(containers).st_dev == os.stat(state).st_dev
    yield _disk(options, "disk", containers, "Make room: docker system prune, or a larger disk.")
    if not same:
        yield _disk(options, "state disk", state, "Make room: logs that wait for the portal and code are kept there.")


def _disk(options: Options, name: str, path: str, cure: str) -> Finding:
    percent = free_percent(path)
    text = f"{percent:.0f} % of {shutil.disk_usage(path).total >> 30} GB free at {path}"
    if percent < options.disk_full_percent:
        return failed(name, text, f"{cure} Below {options.disk_full_percent:g} % nothing new starts.")
    return warning(name, text, cure) if percent < options.disk_clean_percent else ok(name, text)


def _nearest(folder: Path) -> str:
    """The folder, or the one in which it will be made."""
    return str(next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/")))


def storage_findings(options: Options, helpers: str = HELPERS, timeout_s: float = TIMEOUT_S) -> Iterator[Finding]:
    """Findings about storages; none of them waits for a file server that does not answer."""
    probe = FolderProbe(timeout_s)
    try:
        roots = policy_load(options.policy_file, options.mount_roots).mount_roots
    except PolicyInvalid as invalid:
        yield failed("policy", str(invalid), "Correct it: the agent does not start with such a policy.")
        roots = options.mount_roots
    for root in roots:
        yield _storage(probe, root)
    yield from guard_findings(options, (*roots, options.nfs_root))
    if not options.nfs_servers:
        return
    if shutil.which("mount.nfs", path=helpers) is None:
        cure = "Install nfs-common (nfs-utils where it is called so), or take BERTH_NODE_NFS_SERVERS away."
        yield failed("nfs", "this server cannot mount NFS: mount.nfs is missing", cure)
    else:
        yield ok("nfs", f"from {', '.join(options.nfs_servers)}, below {options.nfs_root}")
    for one in mounts():
        if PurePosixPath(one.target).is_relative_to(options.nfs_root):
            yield _answering(probe, one.target) or ok(f"storage {one.target}", f"{one.source} answers")


def guard_findings(options: Options, above: Sequence[str]) -> Iterator[Finding]:
    """Whether setuid programs count in the storages in which jobs write here, as the portal last named them. Mounts
    nothing."""
    guards = MountGuard(above, binds=options.runtime == "docker", timeout_s=TIMEOUT_S)
    for wish in wishes_load(storages_path(options.state_dir)):
        fault = "" if wish.read_only else guards.look(wish.root, is_mount=is_mount(wish))
        if fault and mount_refusal():
            yield failed(f"setuid {wish.root}", fault, cure(wish.root))
        elif fault:
            yield warning(f"setuid {wish.root}", fault, "The agent sees to it within 15 s of its start.")
        elif not wish.read_only:
            yield ok(f"setuid {wish.root}", "programs that jobs leave there count for nothing")


def _storage(probe: FolderProbe, root: str) -> Finding:
    if line := _answering(probe, root):
        return line
    if mounted_at(root.rstrip("/")) is None:
        cure = "If it shall be a mount: mount it. A folder of this server's own is nobody else's."
        return warning(f"storage {root}", "is a folder of this server, no mount", cure)
    return ok(f"storage {root}", "mounted")


def _answering(probe: FolderProbe, root: str) -> Finding | None:
    """A finding where the folder does not answer; None where it does."""
    fault = probe.fault(root)
    if fault.endswith(AWAY):
        return failed(f"storage {root}", AWAY, f"Bring its file server back, or give it up: umount --lazy {root}")
    if fault:
        text = "is not there" if fault.endswith("No such file or directory") else fault
        cure = "Mount it (/etc/fstab), or take it out of BERTH_NODE_MOUNT_ROOTS."
        return failed(f"storage {root}", text, cure)
    return None

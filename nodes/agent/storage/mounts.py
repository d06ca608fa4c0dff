"""Storages on this node: NFS exports are mounted and unmounted, and each storage is checked before it is offered.

Nothing here touches a storage itself (``probe`` does): what is mounted is read from the kernel's own table, and every
look at files, every mount and unmount is a process of its own, with a timeout.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import msgspec
import structlog

from nodes.agent.atomic_file import file_replace
from nodes.agent.storage.nosuid import MountGuard
from nodes.agent.storage.probe import FolderProbe, last_line, mounted_at, mounts
from nodes.protocol.decoding import decoded
from nodes.protocol.messages import StorageWish

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 15.0
_FORCED = ("nosuid", "nodev")
_OPTIONS = frozenset((
    "ro", "vers", "nfsvers", "minorversion", "proto", "port", "mountport", "mountproto", "rsize", "wsize", "timeo",
    "retrans", "retry", "hard", "soft", "softerr", "nconnect", "max_connect", "sec", "noatime", "nodiratime",
    "relatime", "acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo", "ac", "noac", "lookupcache", "nolock",
    "lock", "local_lock", "rdirplus", "nordirplus", "noresvport", "resvport", "async", "sync", "fsc", "noexec",
))  # fmt: skip
"""Mount options that a storage may ask for; any other (``suid``, ``bind``, ``context``) is refused."""
_SERVER = re.compile(r"[^:,=\[\]\s]+|\[[0-9A-Za-z:.%]+\]")
"""``mount`` takes what stands before the first colon or comma for the server, except for an address in brackets."""
_WORD = re.compile(r"[a-z_]+(=[A-Za-z0-9._:-]+)?")


@dataclass(frozen=True, slots=True)
class StorageState:
    """``roots``: folders that answer, below which storages may lie; ``faults``: why a wanted storage is not offered, by
    its root; ``unguarded``: why setuid programs count in a storage that is offered for writing, by its root."""

    roots: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    unguarded: Mapping[str, str] = field(default_factory=dict)


_STAYS = '[ "$(realpath -- "$1")" = "$(realpath -- "$2")$3" ]'
_NO_NFS = ("unknown filesystem type", "No such device")
"""mount's messages where the kernel has no NFS."""
_HELPERS = "/sbin:/usr/sbin:/sbin/fs.d:/sbin/fs"
"""Where mount looks for a file system's helper program, which for NFS comes with nfs-common."""


class StorageManager:
    """Mounts, checks and unmounts the storages of this node.

    ``allowed``: the administrator's folders below which storages may lie; ``own``: the folder below which exports are
    mounted; ``servers``: shell patterns of allowed servers; ``state``: the file that keeps the wanted storages;
    ``kind``: the file system type for ``mount``; ``guards`` keep setuid programs in them from counting.
    """

    def __init__(
        self,
        *,
        allowed: tuple[str, ...],
        own: str,
        servers: tuple[str, ...],
        state: Path,
        guards: MountGuard,
        changed: Callable[[bool], None] = lambda at_once: None,
        kind: str = "nfs",
        timeout_s: float = 5.0,
        mount_s: float = 30.0,
    ) -> None:
        self._allowed, self._own, self._servers = allowed, own, servers
        self._path, self._changed, self._kind = state, changed, kind
        self._family = kind.partition(".")[0]  # of fuse.bindfs it is fuse
        self._timeout_s, self._mount_s = timeout_s, mount_s
        self._wishes = wishes_load(state)
        self._mounted_path = state.with_name(f"{state.stem}-mounted.json")
        self._mounted_with = _read_mounted(self._mounted_path)
        self._probe, self._guards = FolderProbe(timeout_s), guards
        self._closed, self._woken, self._looked = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="storages", daemon=True)
        self.state = StorageState()

    def open(self) -> None:
        """Returns after the first look, unless a file server delays that."""
        self._thread.start()
        self._looked.wait(self._timeout_s)

    def close(self) -> None:
        """Ends the thread; mounts stay."""
        self._closed.set()
        self._woken.set()

    def want(self, wishes: Iterable[StorageWish]) -> None:
        """Sets the storages that this node shall have, all of them. Returns at once."""
        wanted = tuple(sorted(wishes, key=lambda one: one.root))
        if wanted != self._wishes:
            self._wishes = wanted
            self._woken.set()

    def is_available(self, root: str) -> bool:
        """False where the last look at this storage found a fault."""
        return root not in self.state.faults

    def look(self) -> StorageState:
        """Mounts and unmounts what is wanted, and returns the state."""
        wishes = self._wishes
        self._save_wishes(wishes)
        self._unmount_unwanted({one.root for one in wishes if one.export})
        faults = {one.root: fault for one in wishes if (fault := self._fault(one))}
        roots = [root for root in self._allowed if not self._probe.fault(root)]
        mounted = [one.root for one in wishes if one.export and one.root not in faults]
        unguarded = {one.root: fault for one in wishes if one.root not in faults and (fault := self._unguarded(one))}
        self.state = StorageState(tuple(dict.fromkeys([*roots, *mounted])), faults, unguarded)
        return self.state

    def _run(self) -> None:
        while not self._closed.is_set():
            self._woken.clear()
            before = self.state
            try:
                if self.look() != before:
                    self._changed(False)
            except Exception:
                log.exception("look at the storages failed")
            self._looked.set()
            self._woken.wait(LOOK_EVERY_S)

    # ------------------------------------------------------------ one storage

    def _fault(self, wish: StorageWish) -> str:
        """Why this node does not offer the storage; empty where it does."""
        if wish.export and self._is_own(wish.root):
            return self._refusal(wish) or self._mounted(wish)
        above = [root for root in self._allowed if PurePosixPath(wish.root).is_relative_to(root)]
        if not above:
            where = f", and {wish.export} is mounted by it below {self._own} only" if wish.export else ""
            return f"its agent allows no storage at {wish.root} (BERTH_NODE_MOUNT_ROOTS){where}"
        if is_mount(wish) and mounted_at(wish.root) is None:
            return f"nothing is mounted at {wish.root}"
        return self._probe.fault(wish.root) or self._link_fault(wish.root, above)

    def _link_fault(self, root: str, above: Iterable[str]) -> str:
        """What the policy would refuse when a task comes: a link below the allowed folder, which users could have
        made."""
        for one in above:
            rest = os.path.relpath(root, one)
            steps = [root, one, "" if rest == "." else f"/{rest}"]
            if not self._run_command(["sh", "-c", _STAYS, "sh", *steps], self._timeout_s):
                return ""
        return f"a link leads away from {root}: name the folder itself"

    def _unguarded(self, wish: StorageWish) -> str:
        """Why setuid programs that jobs leave in it count here; a read-only storage has none."""
        return "" if wish.read_only else self._guards.fault(wish.root, is_mount=is_mount(wish))

    def _is_own(self, root: str) -> bool:
        path = PurePosixPath(root)
        return ".." not in path.parts and path != PurePosixPath(self._own) and path.is_relative_to(self._own)

    def _refusal(self, wish: StorageWish) -> str:
        server = wish.export.partition(":/")[0]
        if not _SERVER.fullmatch(server):
            return f"{wish.export} names no server and folder"
        if around := self._around(wish.root):
            return f"it lies inside {around}: whoever writes there could put a link in its place"
        if not any(fnmatchcase(server, pattern) for pattern in self._servers):
            return f"its agent may mount nothing from {server} (BERTH_NODE_NFS_SERVERS)"
        bad = [word for word in _words(wish.options) if not _WORD.fullmatch(word) or word.split("=")[0] not in _OPTIONS]
        return f"the mount option {bad[0]} is not allowed" if bad else ""

    def _around(self, root: str) -> str:
        """Another mounted or wanted storage that this one would lie in."""
        others = [one.root for one in self._wishes if one.export] + [one.target for one in mounts()]
        mine = [one for one in others if self._is_own(one) and one != root]
        return next((one for one in mine if PurePosixPath(root).is_relative_to(one)), "")

    def _mounted(self, wish: StorageWish) -> str:
        """Mounts it where it is not mounted, and again where it went stale."""
        there = mounted_at(wish.root)
        if there is not None and there.source.rstrip("/") != wish.export.rstrip("/"):
            if not there.kind.startswith(self._family):
                return f"{there.source} is mounted at {wish.root}"
            if fault := self._umount(wish.root):
                return fault
            there = None
        if there is not None:
            fault = self._probe.fault(wish.root)
            if self._probe.hangs(wish.root):
                return fault
            if not fault and self._is_as_wished(wish):
                return ""
            log.warning("a storage is mounted anew", root=wish.root, why=fault or "its options are others now")
            self._umount(wish.root, lazy=True)
        return self._mount(wish) or self._probe.fault(wish.root)

    def _is_as_wished(self, wish: StorageWish) -> bool:
        """Whether it was mounted with these options; assumed of mounts without a note."""
        return self._mounted_with.get(wish.root, _options(wish)) == _options(wish)

    def _mount(self, wish: StorageWish) -> str:
        fault = self._run_command(["mkdir", "-p", "--", wish.root], self._timeout_s)
        if fault:
            return f"the mount point cannot be made: {fault}"
        options = _options(wish)
        self._note_mounted(self._mounted_with | {wish.root: options})  # before: what is noted in vain is mounted next
        fault = self._run_command(
            ["mount", "-t", self._kind, "-o", options, "--", wish.export, wish.root], self._mount_s
        )
        if not fault:
            log.info("a storage is mounted", root=wish.root, export=wish.export)
            return "" if mounted_at(wish.root) else f"{wish.export} is not mounted though mount said so"
        helper = shutil.which(f"mount.{self._family}", path=_HELPERS)
        if helper is None or any(words in fault for words in _NO_NFS):
            return f"this server cannot mount NFS: install nfs-common, and a kernel with NFS ({fault})"
        return f"{wish.export} cannot be mounted: {fault}"

    def _umount(self, root: str, *, lazy: bool = False) -> str:
        fault = self._run_command(["umount", *(["--lazy"] if lazy else []), "--", root], self._mount_s)
        return f"{root} cannot be unmounted: {fault}" if fault else ""

    def _unmount_unwanted(self, wanted: set[str]) -> None:
        """Unmounts what was mounted here and is not wanted any more. A container keeps its own mount of it."""
        for one in mounts():
            mine = self._is_own(one.target) and one.kind.startswith(self._family)
            if mine and one.target not in wanted:
                fault = self._umount(one.target) and self._umount(one.target, lazy=True)
                log.info("a storage is unmounted", root=one.target, fault=fault)
                if not fault:
                    self._run_command(["rmdir", one.target], self._timeout_s)
        self._note_mounted({root: options for root, options in self._mounted_with.items() if root in wanted})

    def _run_command(self, command: list[str], seconds: float) -> str:
        """Runs a command; what went wrong, empty where nothing did."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},  # whose words are known here
        )
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{command[0]} took longer than {seconds:.0f} s: does the server answer?"
        return "" if process.returncode == 0 else last_line(errors, f"{command[0]} failed")

    def _save_wishes(self, wishes: tuple[StorageWish, ...]) -> None:
        """Saves the wanted storages, so that a restarted agent offers them before it hears from the portal."""
        _write(self._path, msgspec.json.encode(wishes))

    def _note_mounted(self, options: dict[str, str]) -> None:
        """Saves the options of each mount, also for a later agent: the kernel reports them in other words."""
        self._mounted_with = options
        _write(self._mounted_path, msgspec.json.encode(options))


def _options(wish: StorageWish) -> str:
    """The options as ``mount`` takes them."""
    return ",".join(dict.fromkeys([*_FORCED, *(["ro"] if wish.read_only else []), *_words(wish.options)]))


def _write(path: Path, data: bytes) -> None:
    try:
        if not path.exists() or path.read_bytes() != data:
            file_replace(path, data)
    except OSError as error:
        log.warning("the list of storages is not kept", path=str(path), error=str(error))


def _read_mounted(path: Path) -> dict[str, str]:
    try:
        return decoded(path.read_bytes(), dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def storages_path(state_dir: Path) -> Path:
    """The file that keeps the wanted storages."""
    return state_dir / "storages.json"


def is_mount(wish: StorageWish) -> bool:
    """Whether the storage is offered only where something is mounted at its root."""
    return wish.must_be_mount or bool(wish.export)


def wishes_load(path: Path) -> tuple[StorageWish, ...]:
    """The wanted storages as last saved; none where they cannot be read."""
    try:
        return decoded(path.read_bytes(), tuple[StorageWish, ...])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ()


def _words(options: str) -> list[str]:
    return [word.strip() for word in options.split(",") if word.strip()]

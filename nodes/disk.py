"""Room on the disk for containers: unused images go, a node without room takes nothing new, and a container that writes
without end into its own layer is warned and stopped. All of it is looked at anew each time, so that it ends by itself.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from nodes.clock import Clock
from nodes.protocol import DiskShare
from nodes.runtimes.base import ImageStore, Runtime, RuntimeAway, StoredImage

log = structlog.get_logger(__name__)

SHARES = 6
"""So many of the largest are told."""
_AGAIN = 20
"""A look that took so long is followed by one after this many times as long, at least."""
GB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLimits:
    """Percent of the disk that are free, below which images go and below which nothing new is taken. ``clean``: which
    images go (``off``, ``pulled``: those that a registry has, ``all``)."""

    clean: str = "pulled"
    clean_percent: float = 15
    full_percent: float = 5


@dataclass(frozen=True, slots=True)
class DiskState:
    """What is told: whether the node takes nothing new, and what is largest where room is short."""

    full: bool = False
    largest: tuple[DiskShare, ...] = ()


class DiskGuard:
    """A thread of its own that looks every ``every_s``. ``wanted``: names and digests of images that live orders name;
    ``folders``: what else of the agent's lies on a disk, by what it is; ``layers`` is told what
    each running task has written into its container's own layer; ``changed`` that there is something to report."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        limits: DiskLimits,
        folders: Mapping[str, Path],
        wanted: Callable[[], set[str]],
        layers: Callable[[Mapping[str, int]], None],
        changed: Callable[[bool], None],
        clock: Clock,
        every_s: float,
    ) -> None:
        self._runtime, self._limits, self._folders = runtime, limits, folders
        self._wanted, self._layers, self._changed = wanted, layers, changed
        self._clock, self._every_s = clock, every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self.state = DiskState()

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def look(self) -> None:
        """One look, and what follows from it. Raises ``RuntimeAway``."""
        disk = self._disk()
        store = self._runtime.store()
        if store is not None:
            store.images_seen()
            if free_percent(disk) < self._limits.clean_percent and self._limits.clean != "off":
                self._clean(store, disk)
            self._layers(store.layers())
        self._tell(disk, store)

    def _run(self) -> None:
        while not self._closed.is_set():
            began = self._clock.monotonic()
            try:
                self.look()
            except RuntimeAway as away:
                log.info("the disk is not looked at", error=away.message)
            except Exception:
                log.exception("look at the disk failed")
            took = self._clock.monotonic() - began
            self._closed.wait(max(self._every_s, took * _AGAIN))

    def _disk(self) -> str:
        folder = self._runtime.facts().disk
        return folder if os.path.isdir(folder) else "/"

    def _clean(self, store: ImageStore, disk: str) -> None:
        """Removes images, the one unused for longest first, until there is room."""
        wanted = store.named(self._wanted())
        for image in sorted(store.images(), key=lambda one: (one.last_used_ms, one.id)):
            if free_percent(disk) >= self._limits.clean_percent or self._closed.is_set():
                return
            if self._may_go(image) and image.id not in wanted | store.named(self._wanted()):
                gone = store.remove(image)
                log.info("image removed for room", image=image.name, bytes=image.bytes, done=gone)

    def _may_go(self, image: StoredImage) -> bool:
        return not image.used and (image.again or self._limits.clean == "all")

    def _tell(self, disk: str, store: ImageStore | None) -> None:
        free = free_percent(disk)
        # A little more than what made it full, so that it does not open and close with every line of a log.
        bound = self._limits.full_percent * (1.2 if self.state.full else 1)
        short = free < max(self._limits.clean_percent, self._limits.full_percent)
        state = DiskState(full=free < bound, largest=self._largest(store) if short else ())
        if state != self.state:
            self.state = state
            self._changed(False)

    def _largest(self, store: ImageStore | None) -> tuple[DiskShare, ...]:
        found = [*(store.shares() if store is not None else ()), *self._own_shares()]
        return tuple(sorted(found, key=lambda one: (-one.mb, one.what, one.name))[:SHARES])

    def _own_shares(self) -> Iterable[DiskShare]:
        for what, folder in self._folders.items():
            if size := folder_bytes(folder) >> 20:
                yield DiskShare(what=what, name=str(folder), mb=size)


def free_percent(folder: str) -> float:
    """Of the file system that the folder lies on, as its users see it."""
    disk = shutil.disk_usage(folder)
    return 100 * disk.free / disk.total


def folder_bytes(folder: Path) -> int:
    """What the files below it take on the disk. What vanishes meanwhile counts for nothing."""
    taken = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                taken += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue
    return taken

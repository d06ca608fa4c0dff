"""Disk guard: removes unused images when space is short, closes a full node to new tasks, and has containers that write
without end into their own layer warned and stopped. Everything is checked anew each time, so every state ends by
itself."""

from __future__ import annotations

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from nodes.agent.clock import Clock
from nodes.agent.disk.layer_limit import LayerSize
from nodes.agent.disk.usage import TIMEOUTS, SizeWatch, Timeouts
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import ImageStore, Runtime, RuntimeUnavailable, StoredImage
from nodes.protocol.messages import DiskShare

log = structlog.get_logger(__name__)

GB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLimits:
    """Percent of free disk space below which images are removed, and below which nothing new is taken. ``clean``: which
    images are removed (``off``, ``pulled``: those that a registry has, ``all``)."""

    clean: str = "pulled"
    clean_percent: float = 15
    full_percent: float = 5


@dataclass(frozen=True, slots=True)
class DiskState:
    """State for the report: whether the node takes nothing new, and what is largest where space is short."""

    full: bool = False
    largest: tuple[DiskShare, ...] = ()


class DiskGuard:
    """A thread that checks every ``every_s``; what takes long to count is left to ``sizes``.

    ``state``: the agent's own folder, into which tasks' code is unpacked, so that it may not be full either;
    ``wanted``: names and digests of images that live orders name; ``folders``: the agent's other folders on a disk, by
    what they hold; ``layers`` receives the size of each running task's own layer; ``graces``: when warned tasks are to
    be measured again; ``changed`` is called when there is something to report.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        limits: DiskLimits,
        state: Path,
        folders: Mapping[str, Path],
        wanted: Callable[[], set[str]],
        layers: Callable[[Mapping[str, LayerSize]], None],
        graces: Callable[[], Mapping[str, int]],
        changed: Callable[[bool], None],
        clock: Clock,
        every_s: float,
        patience: Timeouts = TIMEOUTS,
    ) -> None:
        self._runtime, self._limits = runtime, limits
        self._wanted, self._changed = wanted, changed
        self._clock, self._every_s = clock, every_s
        self._state, self._folder, self._images = str(state), "", ""
        self._throttles: defaultdict[str, LogThrottle] = defaultdict(lambda: LogThrottle(clock.monotonic))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._lock = threading.Lock()
        self._short = False
        self.state = DiskState()
        self.sizes = SizeWatch(
            runtime=runtime,
            folders=folders,
            layers=layers,
            graces=graces,
            largest=self._set_largest,
            clock=clock,
            every_s=every_s,
            patience=patience,
        )

    def open(self) -> None:
        self._thread.start()
        self.sizes.open()

    def close(self) -> None:
        self._closed.set()
        self.sizes.close()

    def look(self) -> None:
        """Checks once and acts. Each part stands by itself: one that fails keeps none of the others from running."""
        self._guarded("the folder of its disk", self._find)
        self._guarded("its room", self._see)
        self._guarded("images in use", self._note_images)
        self._guarded("images that can go", self._clean)

    def _run(self) -> None:
        while not self._closed.is_set():
            self.look()
            self._closed.wait(self._every_s)

    def _guarded(self, what: str, act: Callable[[], None]) -> None:
        """Runs one part; a failure is logged once, and again after a while if it stays."""
        throttle = self._throttles[what]
        try:
            act()
        except RuntimeUnavailable as away:
            if throttle.new(str(away)):
                log.warning("the disk cannot be looked after", what=what, error=str(away))
        except Exception as error:
            if throttle.new(str(error)):
                log.exception("the disk cannot be looked after", what=what)
        else:
            self._throttles.pop(what, None)

    def _find(self) -> None:
        """Updates the folders; they stay as they were while the Engine does not answer."""
        facts = self._runtime.facts()
        self._folder, self._images = _seen(facts.disk), _seen(facts.images or facts.disk)

    def _see(self) -> None:
        """Checks free space, by the file system alone, whatever the Engine can say."""
        free = min(free_percent(folder) for folder in (self._state, self._folder, self._images) if folder)
        # A little more than what made it full, so that it does not open and close with every line of a log.
        bound = self._limits.full_percent * (1.2 if self.state.full else 1)
        short = free < max(self._limits.clean_percent, self._limits.full_percent)
        with self._lock:
            self._short = short
            self._set(DiskState(full=free < bound, largest=self.state.largest if short else ()))
        self.sizes.want(short)

    def _set_largest(self, largest: tuple[DiskShare, ...]) -> None:
        with self._lock:
            if self._short:
                self._set(replace(self.state, largest=largest))

    def _set(self, state: DiskState) -> None:
        if state != self.state:
            self.state = state
            self._changed(False)

    def _note_images(self) -> None:
        store = self._runtime.store()
        if store is not None:
            store.images_seen()

    def _clean(self) -> None:
        """Removes images, the least recently used first, until there is space; skips images that cannot be removed."""
        store = self._runtime.store()
        if store is None or self._limits.clean == "off" or self._has_room():
            return
        wanted = store.named(self._wanted())
        for image in sorted(store.images(), key=lambda one: (one.last_used_ms, one.id)):
            if self._has_room() or self._closed.is_set():
                return
            if self._may_go(image) and image.id not in wanted | store.named(self._wanted()):
                self._guarded(f"the image {image.name}", partial(self._remove, store, image))
                self._guarded("its room", self._see)

    def _remove(self, store: ImageStore, image: StoredImage) -> None:
        removed = store.remove(image)
        log.info("image removed for room", image=image.name, bytes=image.bytes, done=removed)

    def _has_room(self) -> bool:
        return not self._images or free_percent(self._images) >= self._limits.clean_percent

    def _may_go(self, image: StoredImage) -> bool:
        return not image.used and (image.refetchable or self._limits.clean == "all")


def _seen(folder: str) -> str:
    """The folder, or the nearest that an agent in a container sees: its own files are on the Engine's disk."""
    return folder if os.path.isdir(folder) else "/"


def free_percent(folder: str) -> float:
    """Free space of the folder's file system in percent, as users see it."""
    disk = shutil.disk_usage(folder)
    return 100 * disk.free / disk.total

"""Disk usage of containers, volumes and folders. Each is counted file by file, which takes minutes with millions of
files: so they are measured one by one, and slow ones in a thread that nobody else waits for."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import structlog

from nodes.agent.clock import Clock
from nodes.agent.disk.layer_limit import LayerSize
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import ImageStore, Runtime, RuntimeUnavailable, WritableLayer
from nodes.protocol.messages import DiskShare

log = structlog.get_logger(__name__)

SHARES = 6
"""Most of the largest that are reported."""
_AGAIN = 20
"""Measured again only after this many times as long as it took."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that one answer may take: for a container that was fast the last time, and for everything else."""

    quick_s: float = 10
    slow_s: float = 600


TIMEOUTS = Timeouts()


@dataclass(slots=True, kw_only=True)
class _Poll:
    """Something measured again and again."""

    slow: bool = False
    due_s: float = 0
    asked_ms: int = 0
    throttle: LogThrottle = field(default_factory=LogThrottle)


@dataclass(slots=True, kw_only=True)
class _Layer(_Poll):
    task: WritableLayer
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Volumes:
    """Bytes by name; when their count began, unix ms."""

    bytes: Mapping[str, int] = field(default_factory=dict)
    began_ms: int = 0


class SizeWatch:
    """Measures sizes in two threads every ``every_s``: ``quick`` asks for layers of containers that answer fast,
    ``slow`` for the others one after the other, for volumes, and, while ``wanted``, for what is largest. Nothing is
    asked twice at one time: an Engine counts on when nobody waits any more.

    ``layers`` receives each task's size as soon as it is known; ``graces``: tasks whose next count has to begin at that
    time (unix ms) or later, however long the last one took; ``largest`` receives the largest, ``folders`` among them.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        folders: Mapping[str, Path],
        layers: Callable[[Mapping[str, LayerSize]], None],
        graces: Callable[[], Mapping[str, int]],
        largest: Callable[[tuple[DiskShare, ...]], None],
        clock: Clock,
        every_s: float,
        patience: Timeouts,
    ) -> None:
        self._runtime, self._folders, self._largest = runtime, folders, largest
        self._layers, self._graces = layers, graces
        self._clock, self._every_s, self._patience = clock, every_s, patience
        self._known: dict[str, _Layer] = {}
        self._counted = _Volumes()
        self._store: ImageStore | None = None
        self._listing, self._volumes, self._shares = _Poll(), _Poll(), _Poll()
        self._wanted = self._closed = False
        self._wakes = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(look, wake), name=f"sizes-{look.__name__}", daemon=True)
            for look, wake in zip((self.quick, self.slow), self._wakes, strict=True)
        ]

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closed = True
        for wake in self._wakes:
            wake.set()

    def want(self, wanted: bool) -> None:
        """Sets whether the largest are to be reported; at once where they were not before."""
        begins, self._wanted = wanted and not self._wanted, wanted
        if begins:
            self._shares.due_s = 0
            self._wakes[1].set()

    def quick(self) -> None:
        """Measures the layer of each running task that was fast the last time, or was never measured."""
        tasks = self._ask(self._listing, "containers", self._list)
        if tasks is None or self._store is None:
            return
        self._known = {one.attempt: self._known.get(one.attempt) or _Layer(task=one) for one in tasks}
        graces = self._graces()
        for layer in self._known.values():
            if not layer.slow and self._is_due(layer, graces.get(layer.task.attempt)):
                self._measure(self._store, layer, self._patience.quick_s)

    def slow(self) -> None:
        """Measures everything else that is due."""
        store, known = self._store, list(self._known.values())
        if self._wanted and self._is_due(self._shares):
            self._measure_all(store)
        if store is None:
            return
        graces = self._graces()
        if any(self._is_due(self._volumes, graces.get(one.task.attempt)) for one in known if one.task.volumes):
            self._measure_volumes(store)
        for layer in known:
            if layer.slow and self._is_due(layer, graces.get(layer.task.attempt)):
                self._measure(store, layer, self._patience.slow_s)

    def _list(self) -> list[WritableLayer]:
        self._store = self._runtime.store()
        return self._store.writable_layers() if self._store is not None else []

    def _run(self, look: Callable[[], None], wake: threading.Event) -> None:
        while not self._closed:
            wake.clear()
            try:
                look()
            except Exception:
                log.exception("sizes could not be looked at")
            wake.wait(self._every_s)

    def _measure(self, store: ImageStore, layer: _Layer, timeout_s: float) -> None:
        task = layer.task
        if self._closed:
            return
        what = f"the container of {task.job} ({task.attempt})"
        found = self._ask(layer, what, lambda: self._written(store, task, timeout_s))
        if found is not None:
            layer.bytes = found
            self._layers({task.attempt: self._with_volumes(layer, self._counted)})

    def _with_volumes(self, layer: _Layer, volumes: _Volumes) -> LayerSize:
        """The size with volumes, as old as the older of both counts."""
        names = layer.task.volumes
        began_ms = min(layer.asked_ms, volumes.began_ms) if names else layer.asked_ms
        return LayerSize(layer.bytes + sum(volumes.bytes.get(name, 0) for name in names), began_ms)

    def _written(self, store: ImageStore, task: WritableLayer, timeout_s: float) -> int | None:
        """Bytes in its layer, and beside the code that came with it."""
        until = self._clock.monotonic() + timeout_s
        layer = store.layer(task.container, timeout_s)
        return None if layer is None else layer + folder_bytes(task.workspace, lambda: self._goes_on(until))

    def _goes_on(self, until: float) -> None:
        if self._clock.monotonic() > until:
            raise RuntimeUnavailable("its folder of code has too many files to be counted in time")

    def _measure_volumes(self, store: ImageStore) -> None:
        found = self._ask(self._volumes, "volumes", lambda: store.volumes(self._patience.slow_s))
        if found is not None:
            self._counted = _Volumes(found, self._volumes.asked_ms)

    def _is_due(self, poll: _Poll, grace_ms: int | None = None) -> bool:
        """Whether it is due; ``grace_ms``: a time from which on it has to be measured once, too."""
        late = grace_ms is not None and poll.asked_ms < grace_ms <= self._clock.now_ms()
        return late or self._clock.monotonic() >= poll.due_s

    def _ask(self, poll: _Poll, what: str, call: Callable[[], Answer]) -> Answer | None:
        """The answer; None where there is none, which is logged once."""
        began, poll.asked_ms = self._clock.monotonic(), self._clock.now_ms()
        try:
            answer = call()
        except RuntimeUnavailable as away:
            if poll.throttle.new(str(away)):
                log.warning("a size cannot be measured", what=what, error=str(away))
            return None
        except Exception as error:
            if poll.throttle.new(str(error)):
                log.exception("a size cannot be measured", what=what)
            return None
        else:
            poll.throttle.over()
            return answer
        finally:
            now = self._clock.monotonic()
            poll.slow = now - began >= self._patience.quick_s
            poll.due_s = now + (now - began) * _AGAIN

    def _measure_all(self, store: ImageStore | None) -> None:
        """Reports what is largest. Containers measured one by one stand in while the Engine counts, which may take
        minutes, and where it cannot add up everything."""
        began, own = self._clock.monotonic(), list(self._own_shares())
        if store is None or not self._shares.due_s:
            self._tell_largest([*self._known_shares(), *own])
        if store is not None:
            found = self._ask(self._shares, "all of the Engine's disk", lambda: store.shares(self._patience.slow_s))
            self._tell_largest([*(self._known_shares() if found is None else found), *own])
        now = self._clock.monotonic()
        self._shares.due_s = now + (now - began) * _AGAIN

    def _tell_largest(self, found: Iterable[DiskShare]) -> None:
        self._largest(tuple(sorted(found, key=lambda one: (-one.mb, one.what, one.name))[:SHARES]))

    def _known_shares(self) -> list[DiskShare]:
        layers = [DiskShare(what="layer", name=one.task.job, mb=one.bytes >> 20) for one in self._known.values()]
        return [one for one in layers if one.mb]

    def _own_shares(self) -> Iterable[DiskShare]:
        for what, folder in self._folders.items():
            if size := folder_bytes(folder) >> 20:
                yield DiskShare(what=what, name=str(folder), mb=size)


def folder_bytes(folder: Path, each: Callable[[], None] = lambda: None) -> int:
    """Disk usage of the files below a folder; ``each`` is called before each of them, and may raise. Files that vanish
    meanwhile, or lie too deep for a path, count for nothing. `os.walk` recurses before Python 3.12, and a job can nest
    folders by the thousand."""
    taken, left = 0, [str(folder)]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                each()
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        taken += entry.stat(follow_symlinks=False).st_blocks * 512
    return taken

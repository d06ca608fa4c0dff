"""A runtime whose containers are records in memory, for what needs many lives of a supervisor in a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from time import time_ns

from nodes.agent.logs.base import FrameSource, OpenLine, Position
from nodes.agent.runtimes.base import (
    AttemptFailed,
    CodeFolder,
    ContainerExit,
    Freezer,
    Image,
    RuntimeContainer,
    RuntimeFacts,
    RuntimeUnavailable,
    Shell,
    Status,
    Usage,
)
from nodes.protocol.logs import STDOUT, LogRecord
from nodes.protocol.messages import ContainerSpec, Progress, SshServer
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause


class Silence:
    """The output of a container that says nothing."""

    def frames(self, after: Position) -> Iterator[LogRecord]:
        return iter(())

    def open_lines(self) -> dict[int, OpenLine]:
        return {}

    def missing(self) -> str:
        return ""

    def freeze(self) -> None:
        """Nothing runs."""

    def thaw(self) -> None:
        """Nothing stands still."""

    def close(self) -> None:
        """Nothing is read."""


class Backlog(Silence):
    """The output of a container that has written more than can be read."""

    def __init__(self) -> None:
        self._closed = Event()

    def frames(self, after: Position) -> Iterator[LogRecord]:
        while not self._closed.wait(0.05):
            yield LogRecord(time_ns() - 60 * 10**9, STDOUT, b"an old line\n")

    def close(self) -> None:
        self._closed.set()


class LastWords(Silence):
    """The output of a container whose last line is long in coming."""

    def frames(self, after: Position) -> Iterator[LogRecord]:
        Event().wait(0.3)
        yield LogRecord(time_ns(), STDOUT, b"last words\n")


@dataclass
class MemoryRuntime:
    """Containers end when they are signalled, if `obeys` says so. It outlives the supervisors that use it."""

    obeys: Callable[[int], bool] = lambda number: True
    away: bool = False
    fails: AttemptFailed | None = None
    output: Callable[[], FrameSource] = Silence
    containers: dict[str, RuntimeContainer] = field(default_factory=dict)
    starts: Counter[str] = field(default_factory=Counter)
    looks: int = 0  # for a single container
    signals: list[int] = field(default_factory=list)
    rests: list[bool] = field(default_factory=list)
    notices: dict[str, str] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)  # host pid -> its container, running or not
    mirrors: Mapping[str, str] = field(default_factory=dict)
    name: str = "memory"
    isolation: str = "memory"
    profiles: bool = False
    notice: str = ""
    _lock: Lock = field(default_factory=Lock)
    _made: int = 0

    def found(self) -> dict[str, RuntimeContainer]:
        self._answer()
        return dict(self.containers)

    def find(self, attempt: str) -> RuntimeContainer | None:
        self._answer()
        self.looks += 1
        return self.containers.get(attempt)

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        self._answer()
        self.mirrors = mirrors
        if self.fails is not None:
            raise self.fails
        return Image(digest=spec.digest or "sha256:1", reference=spec.image)

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        raise AssertionError("no code comes with these tasks")

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        self._answer()
        with self._lock:
            self._made += 1
            made = RuntimeContainer(
                attempt=spec.attempt,
                container=f"c{self._made}",
                spec_hash=spec_hash,
                status=Status.CREATED,
                gpus=spec.gpus,
                digest=image.digest,
            )
            return self.containers.setdefault(spec.attempt, made)

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        self._answer()
        found = self.containers[spec.attempt]
        if found.status is Status.CREATED:
            self.starts[spec.attempt] += 1
            found = self.containers[spec.attempt] = replace(found, status=Status.RUNNING, started_ms=1)
        return found

    def signal(self, attempt: str, number: int) -> None:
        self._answer()
        self.signals.append(number)
        if self.obeys(number):
            self.end(attempt, 128 + number)

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        self.rests.append(last)
        return False

    def end(self, attempt: str, code: int) -> None:
        """The container ends by itself."""
        found = self.containers[attempt]
        ending = ContainerExit(code=code)
        self.containers[attempt] = replace(found, status=Status.ENDED, ended_ms=1 << 62, ending=ending)

    def write_notice(self, attempt: str, text: str) -> None:
        self._answer()
        self.notices[attempt] = text

    def remove_notice(self, attempt: str) -> None:
        self._answer()
        self.notices.pop(attempt, None)

    def write_peers(self, attempt: str, text: str) -> None:
        self._answer()
        self.peers[attempt] = text

    def remove(self, attempt: str) -> None:
        self._answer()
        self.containers.pop(attempt, None)

    def source(self, attempt: str) -> FrameSource:
        return self.output()

    def shell(self, request: ShellRequest) -> Shell:
        raise AttemptFailed(Cause.INVALID, "Containers in memory have no shells")

    def end_leftover_shells(self) -> None:
        self._answer()

    def ssh_keys(self, attempt: str, text: str) -> None:
        self._answer()
        self.keys[attempt] = text

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        self._answer()
        return SshServer(message=f"containers in memory open no port {port}")

    def watch(self, changed: Callable[[str], None]) -> None:
        """No events: what happens is found by looking."""

    def owner(self, pid: int) -> str | None:
        running = [one for one in self.containers.values() if one.status is Status.RUNNING]
        return next((one.attempt for one in running if one.container == self.processes.get(pid)), None)

    def belongs(self, pid: int, container: str) -> bool:
        return self.processes.get(pid) == container

    def usage(self) -> dict[str, Usage]:
        return {}

    def freezer(self) -> Freezer | None:
        return None

    def store(self) -> None:
        """It keeps no images."""

    def facts(self) -> RuntimeFacts:
        return RuntimeFacts(engine="memory", capabilities=(), disk="/")

    def close(self) -> None:
        """Nothing to let go of."""

    def _answer(self) -> None:
        if self.away:
            raise RuntimeUnavailable("it does not answer")

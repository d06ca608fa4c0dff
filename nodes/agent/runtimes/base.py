"""The one interface to what runs task attempts. Only the files of this folder talk to Docker or start processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nodes.agent.logs.base import FrameSource, Position
from nodes.protocol.logs import LogRecord
from nodes.protocol.messages import ContainerSpec, DiskShare, Progress, SshServer
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause


class AttemptFailed(Exception):
    """The attempt cannot be brought to run here. ``message`` is one sentence for people, without secrets."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


class Cancelled(Exception):
    """A preparation ended because nobody wants it any more."""


class RuntimeUnavailable(Exception):
    """The runtime does not answer now. No container is touched by that; ask again later."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ShellEnded(Exception):
    """The program does not take anything any more."""


class Status(StrEnum):
    """Where a container stands for its runtime."""

    CREATED = "created"  # exists and was never started
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How the runtime saw a container end. ``code`` is 128 + signal for a killed one, None when nobody knows: ``error``
    says why then, where the runtime does. ``unsure``: says so of a code that tells nothing where the machine was
    started anew since the container ran, empty of any other."""

    code: int | None
    oom: bool = False
    error: str = ""
    unsure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """A container of this node's, as the runtime has it; ``spec_hash`` and ``gpus`` are read from its labels.
    ``gpus_denied``: it runs, and may not open its GPUs any more."""

    attempt: str
    container: str
    spec_hash: str
    status: Status
    gpus: tuple[str, ...] = ()
    gpus_denied: bool = False
    digest: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    ending: ContainerExit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A resolved image: ``digest`` is compared between tasks, ``reference`` is what this runtime creates from."""

    digest: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFolder:
    """Where the code of a task lies on the node, and whose it is there; None: the agent's own, who gives nothing
    away. ``mode``: of the folder itself, which others of the node may reach."""

    folder: Path
    uid: int | None
    gid: int | None
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """For the inventory; ``disk`` is a folder on the file system that containers fill, of several the one with the
    least room; ``images`` is that of images where it may be another."""

    engine: str
    capabilities: tuple[str, ...]
    disk: str
    images: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPU seconds used since the start and memory in MB of one container now."""

    cpu_s: float
    memory_mb: int


def records_beyond(
    records: Iterable[LogRecord], after: Position, start: Mapping[int, int] | None = None
) -> Iterator[LogRecord]:
    """``records`` without the bytes of each stream that ``after`` has taken; ``start``: bytes before the first one."""
    left = {stream: taken - (start or {}).get(stream, 0) for stream, taken in after.payload_bytes.items()}
    for record in records:
        skip = left.get(record.stream, 0)
        left[record.stream] = max(0, skip - len(record.payload))
        if skip < len(record.payload) or not record.payload:
            yield replace(record, payload=record.payload[skip:]) if skip > 0 else record


class Shell(Protocol):
    """A program beside a task, in its container and as its user. One thread reads, another one writes."""

    def read(self) -> tuple[int, bytes] | None:
        """(STDOUT or STDERR, what came out), as soon as there is something; None at the end. On a terminal all of it
        is STDOUT."""
        ...

    def write(self, data: bytes) -> None:
        """Waits until all of it is taken. Raises ShellEnded."""
        ...

    def finish(self) -> None:
        """No more input comes; on a terminal that is nothing."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        ...

    def wait(self) -> int | None:
        """After the end of ``read``: the exit status, 128 + signal for a killed one, None when nobody knows."""
        ...

    def hang_up(self) -> None:
        """Makes ``read`` and ``write`` end soon. Returns at once; from any thread, also twice."""
        ...

    def close(self) -> None:
        """Ends the program if it still lives, as the loss of its terminal would, and kills it where it stays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image on the node's disk. ``names``: all that it goes by; ``used``: a container was made from it, whosever;
    ``refetchable``: it can be fetched from a registry, or nothing names it; ``last_used_ms``: by a task, unix ms."""

    id: str
    names: tuple[str, ...]
    bytes: int
    used: bool
    refetchable: bool
    last_used_ms: int

    @property
    def name(self) -> str:
        return self.names[0] if self.names else self.id


@dataclass(frozen=True, slots=True)
class WritableLayer:
    """A running task, whose container writes into a layer of its own, into ``volumes`` that its image declares, and
    into ``workspace``, the folder of its code on the node, where it has one."""

    attempt: str
    container: str
    job: str
    volumes: tuple[str, ...]
    workspace: Path


class ImageStore(Protocol):
    """What a runtime keeps on its disk. All of it raises ``RuntimeUnavailable``."""

    def images_seen(self) -> None:
        """Notes which images there are, and which running tasks use."""
        ...

    def images(self) -> list[StoredImage]: ...

    def named(self, names: Iterable[str]) -> set[str]:
        """Ids of the images that these names and digests mean here."""
        ...

    def remove(self, image: StoredImage) -> bool:
        """False: somebody uses it by now."""
        ...

    def writable_layers(self) -> list[WritableLayer]: ...

    def layer(self, container: str, timeout_s: float) -> int | None:
        """Bytes that one has written into its own layer; None: it is gone."""
        ...

    def volumes(self, timeout_s: float) -> dict[str, int]:
        """Bytes of each, by its name."""
        ...

    def shares(self, timeout_s: float) -> list[DiskShare]:
        """What takes how much, all of it."""
        ...


class Runtime(Protocol):
    """All methods may be called from several threads, for different attempts, and raise ``RuntimeUnavailable`` when the
    runtime does not answer. Listings see the containers of this cluster and this node only."""

    name: str
    isolation: str
    profiles: bool  # a task's profile decides as whom it runs
    notice: str  # a line for the start of every log, empty for none

    def found(self) -> dict[str, RuntimeContainer]:
        """Every container of this node by task attempt; ``ending`` may be missing here."""
        ...

    def find(self, attempt: str) -> RuntimeContainer | None:
        """One container with all its facts; None when there is none."""
        ...

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        """Brings the spec's image to the node; ``mirrors``: of registries, by host. Raises ``AttemptFailed`` or
        ``Cancelled``."""
        ...

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        """The folder that the task has as its working folder where code comes with it; ``remove`` takes it along."""
        ...

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        """Makes the container without starting it, or takes the one that has its name. Raises ``AttemptFailed``."""
        ...

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        """Starts a created container once. Raises ``AttemptFailed``."""
        ...

    def signal(self, attempt: str, number: int) -> None:
        """Sends a signal (SIGTERM or SIGKILL); nothing happens when it has ended. Who reads what others of the task
        write is sent SIGTERM by ``signal_pipe_readers``."""
        ...

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        """Sends SIGTERM, after ``signal`` has, to those who waited for the end of who writes for them; to all that
        still wait, ``last``. Whether some are left."""
        ...

    def write_notice(self, attempt: str, text: str) -> None:
        """Puts ``text`` into the file that the task knows as BERTH_NOTICE_FILE. Raises OSError."""
        ...

    def remove_notice(self, attempt: str) -> None:
        """Removes that file, if it is there. Raises OSError."""
        ...

    def remove(self, attempt: str) -> None:
        """Removes the container for good, running or not; nothing happens when there is none."""
        ...

    def source(self, attempt: str) -> FrameSource:
        """The output of a container that was started."""
        ...

    def shell(self, request: ShellRequest) -> Shell:
        """Starts a program beside a running task, as its user and with no more rights. Raises ``AttemptFailed``."""
        ...

    def end_leftover_shells(self) -> None:
        """Ends what ``shell`` of an agent that was killed left running."""
        ...

    def ssh_keys(self, attempt: str, text: str) -> None:
        """Makes ``text`` the keys that the SSH server of a task takes, which reads them at each log-in. Raises
        OSError."""
        ...

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        """Starts the SSH server of a running task, or tells of the one that was started before; may take long."""
        ...

    def watch(self, changed: Callable[[str], None]) -> None:
        """Calls ``changed(attempt)`` soon after a container started or ended, from a thread of its own, until
        ``close``. Events may be lost: they only make it fast."""
        ...

    def owner(self, pid: int) -> str | None:
        """The task attempt whose running container a process of the host belongs to."""
        ...

    def belongs(self, pid: int, container: str) -> bool:
        """Whether a process of the host is of this container, also of one that has ended."""
        ...

    def usage(self) -> dict[str, Usage]:
        """What running containers use, as far as it can be read, by task attempt."""
        ...

    def facts(self) -> RuntimeFacts: ...

    def store(self) -> ImageStore | None:
        """None: it keeps no images."""
        ...

    def close(self) -> None:
        """Lets go. Every container runs on."""
        ...

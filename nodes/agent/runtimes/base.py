"""The interface to what runs task attempts. Only this package talks to Docker or starts processes."""

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
    """The attempt cannot be run here. ``message`` is one sentence for people, without secrets."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


class Cancelled(Exception):
    """A preparation ended because the attempt is not wanted any more."""


class RuntimeUnavailable(Exception):
    """The runtime does not answer now. No container is affected; ask again later."""


class LimitRefused(Exception):
    """A container's memory limit cannot be changed. Its text is one phrase."""


class ShellEnded(Exception):
    """The program takes no more input."""


class Status(StrEnum):
    """State of a container in its runtime."""

    CREATED = "created"  # exists and was never started
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How the runtime saw a container end. ``code`` is 128 + signal for a killed one, None when unknown; then ``error``
    says why, where the runtime does. ``unsure``: the sentence to use instead of a code that means nothing if the
    machine was restarted since the container ran; empty for a code that can be trusted."""

    code: int | None
    oom: bool = False
    error: str = ""
    unsure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """A container of this node as the runtime has it; ``spec_hash`` and ``gpus`` come from its labels. ``gpus_denied``:
    it runs, and may not open its GPUs any more; ``paused``: it runs and stands still."""

    attempt: str
    container: str
    spec_hash: str
    status: Status
    gpus: tuple[str, ...] = ()
    gpus_denied: bool = False
    paused: bool = False
    memory_mb: int = 0  # its limit as the runtime has it
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
    """The folder of a task's code on the node, and its owner; None: the agent's own user. ``mode``: of the folder
    itself, which other users of the node may reach."""

    folder: Path
    uid: int | None
    gid: int | None
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """Facts for the inventory. ``disk`` is a folder on the file system that containers fill, of several the one with
    the least room; ``images`` is that of images where it may be another."""

    engine: str
    capabilities: tuple[str, ...]
    disk: str
    images: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """CPU seconds since the start and memory in MB of one container now."""

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
        """The next (STDOUT or STDERR, output) as soon as there is some; None at the end. On a terminal everything is
        STDOUT."""

    def write(self, data: bytes) -> None:
        """Writes all of it; waits until it is taken. Raises ShellEnded."""

    def finish(self) -> None:
        """Ends the input; does nothing on a terminal."""

    def resize(self, rows: int, columns: int) -> None:
        """Sets the terminal's size."""

    def wait(self) -> int | None:
        """The exit status after the end of ``read``: 128 + signal for a killed one, None when unknown."""

    def hang_up(self) -> None:
        """Makes ``read`` and ``write`` end soon. Returns at once; from any thread, also twice."""

    def close(self) -> None:
        """Ends the program if it still runs, as the loss of its terminal would, and kills what remains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image on the node's disk, with all its ``names``. ``used``: any container was made from it; ``refetchable``: a
    registry has it, or nothing names it; ``last_used_ms``: by a task, unix ms."""

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
    """What a running task writes to on the node's disk: its container's own layer, ``volumes`` that its image declares,
    and ``workspace``, the folder of its code."""

    attempt: str
    container: str
    job: str
    volumes: tuple[str, ...]
    workspace: Path


class ImageStore(Protocol):
    """Images and layers on a runtime's disk. All methods raise ``RuntimeUnavailable``."""

    def images_seen(self) -> None:
        """Notes which images exist, and which of them running tasks use."""

    def images(self) -> list[StoredImage]: ...

    def named(self, names: Iterable[str]) -> set[str]:
        """Ids of the images that these names and digests mean here."""

    def remove(self, image: StoredImage) -> bool:
        """Removes an image; False when something uses it by now."""

    def writable_layers(self) -> list[WritableLayer]: ...

    def layer(self, container: str, timeout_s: float) -> int | None:
        """Bytes that a container has written into its own layer; None: it is gone."""

    def volumes(self, timeout_s: float) -> dict[str, int]:
        """Bytes of each volume, by name."""

    def shares(self, timeout_s: float) -> list[DiskShare]:
        """Everything on the disk by size."""


class Freezer(Protocol):
    """Pauses of parked containers. All methods raise ``RuntimeUnavailable``, may be repeated, and do nothing with a
    container that has ended."""

    def sees_processes(self) -> bool:
        """Whether processes of containers are seen from here, by their host pids."""

    def thaw(self, attempt: str) -> None:
        """Lets a container go on; its log does not pause it until ``freeze`` or ``release``."""

    def freeze(self, attempt: str) -> None:
        """Pauses it until ``thaw``, whatever its log says."""

    def release(self, attempt: str) -> None:
        """Leaves its pauses to its log again."""

    def set_memory(self, attempt: str, mb: int, *, although_more: bool = False) -> None:
        """Changes its memory limit. Raises ``LimitRefused``, also where its processes hold more, unless
        ``although_more``: then the kernel ends one."""


class Runtime(Protocol):
    """Runs task attempts. All methods may be called from several threads, for different attempts, and raise
    ``RuntimeUnavailable`` when the runtime does not answer. Listings include the containers of this cluster and node
    only."""

    name: str
    isolation: str
    profiles: bool  # a task's profile decides as whom it runs
    notice: str  # a line for the start of every log, empty for none

    def found(self) -> dict[str, RuntimeContainer]:
        """All containers of this node by task attempt; ``ending`` may be missing here."""

    def find(self, attempt: str) -> RuntimeContainer | None:
        """One container with all its facts; None when there is none."""

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

    def code_folder(self, spec: ContainerSpec) -> CodeFolder:
        """The task's working folder where code comes with the job; ``remove`` removes it."""

    def create(self, spec: ContainerSpec, spec_hash: str, image: Image) -> RuntimeContainer:
        """Creates the container without starting it, or adopts the one with its name. Raises ``AttemptFailed``."""

    def start(self, spec: ContainerSpec) -> RuntimeContainer:
        """Starts a created container once. Raises ``AttemptFailed``."""

    def signal(self, attempt: str, number: int) -> None:
        """Sends SIGTERM or SIGKILL; does nothing when the container has ended. Processes that read what others of the
        task write get SIGTERM from ``signal_pipe_readers``."""

    def signal_pipe_readers(self, attempt: str, *, last: bool) -> bool:
        """Sends SIGTERM, after ``signal``, to readers whose writers have ended; with ``last`` to all that still wait.
        Whether some are left."""

    def write_notice(self, attempt: str, text: str) -> None:
        """Writes ``text`` to the file that the task knows as BERTH_NOTICE_FILE. Raises OSError."""

    def remove_notice(self, attempt: str) -> None:
        """Removes that file, if it is there. Raises OSError."""

    def write_peers(self, attempt: str, text: str) -> None:
        """Replaces the file that the task knows as BERTH_PEERS, at once. Raises OSError."""

    def remove(self, attempt: str) -> None:
        """Removes the container for good, running or not; does nothing when there is none."""

    def source(self, attempt: str) -> FrameSource:
        """The output of a container that was started."""

    def shell(self, request: ShellRequest) -> Shell:
        """Starts a program beside a running task, as its user and with no more rights. Raises ``AttemptFailed``."""

    def end_leftover_shells(self) -> None:
        """Ends shells that a killed agent left running."""

    def ssh_keys(self, attempt: str, text: str) -> None:
        """Replaces the keys that a task's SSH server accepts, which reads them at each log-in. Raises OSError."""

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        """Starts the SSH server of a running task, or returns the one started before; may take long."""

    def watch(self, changed: Callable[[str], None]) -> None:
        """Calls ``changed(attempt)`` soon after a container started or ended, from a thread of its own, until
        ``close``. Events may be lost: they only make it fast."""

    def owner(self, pid: int) -> str | None:
        """The task attempt whose running container a host process belongs to."""

    def belongs(self, pid: int, container: str) -> bool:
        """Whether a host process belongs to this container, also to an ended one."""

    def usage(self) -> dict[str, Usage]:
        """Resource usage of running containers by task attempt, as far as it can be read."""

    def facts(self) -> RuntimeFacts: ...

    def freezer(self) -> Freezer | None:
        """What pauses containers to park them; None: the runtime cannot."""

    def store(self) -> ImageStore | None:
        """The image store; None: the runtime keeps no images."""

    def close(self) -> None:
        """Detaches. Every container runs on."""

"""Orders and reports as plain data. Unknown fields are ignored and new ones have defaults, so that agents one release
apart understand each other; everything travels as JSON inside a signed envelope."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from nodes.protocol.decoding import decoded
from nodes.protocol.parking import GpuFault, GpuState, GpuWish
from nodes.protocol.states import Cause, ContainerState, Phase, StepFault, StopReason
from nodes.protocol.wording import message_split

PROTOCOL_VERSION = 1
Natural = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""A natural number that a column of 64 bits holds, also when it is incremented."""


# ---------------------------------------------------------------- down: what a node shall have


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """cgroup limits of one container. ``pids`` counts processes and threads."""

    cpu_milli: int
    memory_mb: int
    shm_mb: int
    pids: int
    infiniband: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of a storage inside the container. ``source`` is the path on the node, below the storage's root.

    ``must_be_mount``: the storage's root; where it is named and no mount point, the node does not offer the storage.
    ``create``: the agent makes the last folders with the task's uid and gid where they are missing.
    """

    storage: str
    root: str
    source: str
    target: str
    read_only: bool = False
    create: bool = False
    must_be_mount: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAuth:
    """A login for exactly one registry host."""

    registry: str
    username: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The folder of code that comes with a job: the archive's SHA-256 (hex) and bytes, and what it unpacks to."""

    sha256: str
    size: int
    unpacked: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """Everything that a node needs to make the container of one task attempt. Sealed in transit: it may hold
    secrets."""

    attempt: str  # the task attempt's id (UUID text)
    job: str  # "user/name#run", for labels and people
    role: str
    index: int
    image: str  # as the job file names it
    digest: str | None  # "sha256:…" that all tasks of the attempt run; None: resolve the image and report what it is
    script: str  # whole shell text, secrets rendered; given to the shell through its environment
    env: dict[str, str]
    gpus: tuple[str, ...]  # UUIDs
    limits: Limits
    profile: str  # "user" | "root"
    uid: int  # the user's, whose folders it makes on storages; what the container runs as is the profile's matter
    gid: int
    groups: tuple[int, ...]
    user_name: str
    workdir: str
    network: str  # "bridge" | "host"
    ports: dict[str, tuple[int, ...]] = field(default_factory=dict)  # label -> host ports held on the node
    mounts: tuple[Mount, ...] = ()
    job_dir: str | None = None  # path inside the container of $BERTH_JOB_DIR
    lease: str | None = None  # path ON THE NODE of the lease file that the script touches every 10 s
    lease_after: str | None = None  # "attempt 1 on gpu07", whose lease must stand still for 60 s first; None: no wait
    checkpoint: str | None = None  # path ON THE NODE of the file that the job touches at each checkpoint
    steps: str = ""  # pattern of log lines, for RE2, whose first group is the number of a step
    steps_file: str | None = None  # path ON THE NODE of the file that the job rewrites at each step
    grace_s: int = 30
    auth: ImageAuth | None = None
    code: Code | None = None  # unpacked to ``workdir``
    hidden: tuple[str, ...] = ()  # the job's secrets, which no log and no message shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    reason: StopReason
    grace_s: int  # seconds between SIGTERM and SIGKILL; the notice file names the deadline
    message: str = ""  # one line for the log's end: "preempted by prod/job#3 of team vision"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """SSH access to a task. ``keys``: lines of authorized_keys as they are now, without options; they may change while
    the task runs."""

    port: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One task attempt in the node's list."""

    attempt: str
    phase: Phase
    spec_hash: str
    since: int  # the generation in which this phase was first ordered
    archived: int = 0  # log bytes safe in the archive: spool and stream may drop what lies before
    spec: str | None = None  # sealed ContainerSpec, until a report names its hash among ``specs_known``
    stop: Stop | None = None
    code: str | None = None  # sealed address of its code, good for some minutes; while it may still be fetched
    ssh: SshAccess | None = None
    begun: bool = False  # the portal has heard that it began: where nothing is known of it, it is gone, not to be begun
    turn: Natural = 0  # numbers what is wanted of its GPU: of two orders the higher turn counts
    gpu: GpuWish = GpuWish.HOLD
    park_limit_s: Natural = 60  # how long its kernels are waited for when it is parked
    peers: tuple[str, ...] = ()  # "address:port" of each task of its elastic role now; empty: the role is not elastic


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageWish:
    """A storage that the node shall have. ``export``: ``server:/path``, which the agent mounts at ``root`` with
    ``options``; without one the server provides the folder."""

    name: str
    root: str
    export: str = ""
    options: str = ""
    read_only: bool = False
    must_be_mount: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The node's complete list. Replaces every earlier one; a list with a lower generation is ignored."""

    cluster: str
    node: str
    generation: int
    orders: tuple[Order, ...]
    answers: int = 0  # the report sequence it answers; 0 when sent early
    node_lost_after_s: int = 60  # of silence; a node that may have been given up starts nothing
    storages: tuple[StorageWish, ...] | None = None  # None: of a portal that does not tell
    mirrors: dict[str, str] = field(default_factory=dict)  # host of an image registry -> host of its mirror
    version: int = PROTOCOL_VERSION


# ---------------------------------------------------------------- up: what a node has


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended."""

    cause: Cause
    code: int | None = None  # exit status as Docker gives it (137 = SIGKILL); None when it never ran
    signal: int | None = None
    stop_reason: StopReason | None = None
    message: str = ""  # one sentence for people, no secrets
    oom_seen: bool = False  # some process was killed for memory although the exit was another
    log_tail: str = ""  # last lines of the log, at most 4 kB
    said: dict[str, Any] = field(default_factory=dict)  # the message's code and data, where it is a declared sentence

    def __post_init__(self) -> None:
        message_split(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a container that has not begun is waiting for: "image 34 %", "attempt 1 still writes from gpu07"."""

    code: str  # "image" | "lease" | "storage" | "engine" | "spec" | "code" | "code_unavailable" | "portal"
    percent: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshServer:
    """Outcome of a task's SSH server. It comes from the container, so nothing in it is trusted: ``user`` whom it lets
    in, ``host_key`` as in known_hosts ("ssh-ed25519 AAAA…"). Without a user there is none, and ``message`` says why."""

    user: str = ""
    host_key: str = ""
    message: str = ""  # one sentence for people
    said: dict[str, Any] = field(default_factory=dict)  # the same as data

    def __post_init__(self) -> None:
        message_split(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How far a training is. ``step_ms``: how long one step took of late; None before the second."""

    step: int | None = None
    at_ms: int | None = None  # when it was told, unix ms by the node's clock
    step_ms: float | None = None
    fault: StepFault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReport:
    attempt: str
    state: ContainerState
    spec_hash: str
    generation: int  # newest generation of Desired this agent had seen when it read this state
    digest: str | None = None
    isolation: str = ""  # what it really runs under: "docker, profile user" | "process (not isolated)"
    container: str = ""  # the Engine's id
    prepared_ms: int | None = None  # unix ms by the node's clock
    started_ms: int | None = None
    ended_ms: int | None = None
    exit: Exit | None = None
    log_end: int = 0  # bytes in the spool; final once ``log_complete``
    log_complete: bool = False
    log_dropped_lines: int = 0
    progress: Progress | None = None
    checkpoint_ms: int | None = None  # when the job's checkpoint file last changed, unix ms by its file server
    steps: Steps | None = None  # None: it has told none
    gpus: tuple[str, ...] = ()  # UUIDs it holds, also of containers the portal does not know; none while it is parked
    gpu: GpuState = GpuState.HELD
    turn: int = 0  # the newest one taken in, also where it could not be carried out
    parked_mb: int = 0  # of its GPU memory in the server's
    fault: GpuFault | None = None  # what stands in the way of that turn
    ssh: SshServer | None = None  # None: not asked for, or not known yet
    folder: str = ""  # its job folder on the node, for who knows nothing of the task


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """One GPU as the node sees it; groups are equal for GPUs behind one NVLink or PCIe switch, None: unknown."""

    uuid: str
    index: int
    model: str
    memory_mb: int
    pci: str = ""
    numa: int | None = None
    nvlink_group: int | None = None
    pcie_group: int | None = None
    driver: str = ""
    cuda: str = ""
    healthy: bool = True
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskShare:
    """Something on the node's disk and its size in MB; ``name``: of one of several, such as a container's job."""

    what: str  # "images" | "layer" | "volumes" | "build cache" | "logs" | "code" | "workspaces"
    mb: int
    name: str = ""


MOST_LISTENERS = 32
"""Most listeners without authentication reported per server."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener on the server without authentication. ``kind``: a ``ListenerKind``; ``address``: one of the loopback,
    or of all its addresses ("0.0.0.0", "::")."""

    kind: str
    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What the node has. ``simulated`` GPUs are declared, not found; beside them more CPU and memory may be promised
    than exists."""

    hostname: str
    cpu_milli: int  # promised to jobs, as the memory
    memory_mb: int
    gpus: tuple[GpuInfo, ...]
    simulated: bool
    address: str  # the node's job address
    interface: str
    runtime: str  # "docker" | "process"
    engine: str = ""  # "docker 28.2.2"
    kernel: str = ""
    agent: str = ""  # the agent's version
    port_first: int = 20000
    port_last: int = 29999
    capabilities: tuple[str, ...] = ()  # today of: docker cdi suspend
    storages: tuple[str, ...] = ()  # roots that are mounted here
    storage_faults: dict[str, str] = field(default_factory=dict)  # root of one that it shall have -> why it has it not
    storages_unguarded: dict[str, str] = field(default_factory=dict)  # root of one -> why setuid programs in it count
    disk_free_mb: int = 0
    disk_total_mb: int = 0
    disk_full: bool = False  # it takes nothing new
    largest: tuple[DiskShare, ...] = ()  # where room is short, the largest first
    rack: str = ""  # a label: nodes with the same one stand close together
    there_cpu_milli: int = 0  # what is really there; 0: not told
    there_memory_mb: int = 0
    ports_busy: tuple[int, ...] = ()  # of its range, on which something else than its tasks listens
    listeners: tuple[Listener, ...] = ()  # what answers without authentication, at most MOST_LISTENERS
    engine_away: str = ""  # why its runtime has carried out nothing for a minute; it takes nothing new
    park_mb: int = 0  # of its memory for parked tasks, what they take included
    park_fault: GpuFault | None = None  # why no task can be parked here


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    pid: int
    memory_mb: int
    attempt: str | None  # whose container it belongs to; None: nobody's of ours
    utilisation: int | None = None  # its part of the GPU's time of late, in percent


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One reading; None where the GPU reports nothing. Power in watts, clocks in MHz, the others in percent: the time
    with any kernel (``utilisation``), and from Hopper on, since the reading before, the multiprocessors at work, their
    warps, the tensor units at work, and the memory's bandwidth."""

    uuid: str
    utilisation: int | None = None
    sm_active: int | None = None
    sm_occupancy: int | None = None
    tensor_active: int | None = None
    dram_active: int | None = None
    memory_used_mb: int | None = None
    temperature_c: int | None = None
    power_w: int | None = None
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Readings of one moment; ``cpu_milli`` and ``memory_mb`` by task attempt."""

    at_ms: int
    gpus: tuple[GpuSample, ...] = ()
    load_milli: int = 0
    memory_used_mb: int = 0
    cpu_milli: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that an agent knows, every 5 s and soon after a change. Ordered by (boot, seq)."""

    cluster: str
    node: str
    boot: Natural  # grows with every start of the agent
    seq: Natural  # from 1, grows with every report of this boot
    generation: int  # newest Desired seen in this boot; 0: none yet
    sent_ms: Natural
    inventory: Inventory
    containers: tuple[ContainerReport, ...] = ()
    specs_known: tuple[str, ...] = ()  # hashes of specs held in memory
    sample: Sample | None = None
    version: int = PROTOCOL_VERSION


Message = TypeVar("Message")


def encode(message: object) -> bytes:
    """JSON of a message or of any dataclass above."""
    return msgspec.json.encode(message, enc_hook=str)


def decode(body: bytes, kind: type[Message]) -> Message:
    """The inverse of ``encode``. Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError`` naming the field."""
    try:
        return decoded(body, kind)
    except UnicodeDecodeError as error:  # of a text within it
        raise msgspec.DecodeError(str(error)) from error


def spec_digest(encoded: bytes) -> str:
    """Hash that names an encoded ``ContainerSpec`` on both sides (hex, 32 characters). Of the very bytes that travel:
    an agent of another release may not know every field in them."""
    return hashlib.sha256(encoded).hexdigest()[:32]

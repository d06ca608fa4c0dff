"""What the server answers, typed. States and reasons are plain strings, so that a newer server's are understood.

Times are aware datetimes; memory is in MB (2**20 bytes), CPU in thousandths of a core.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from msgspec import Struct

LIVE = ("waiting", "starting", "running", "stopping")
"""States of a job that is not over."""
STDOUT, STDERR, MARK = 1, 2, 3
"""Streams of a log; a mark is a line of Berth's own."""


class Answer(Struct, frozen=True, kw_only=True):
    """Fields that this version does not know are left out; one that is missing is an error."""


RowT = TypeVar("RowT")


class Page(Struct, Generic[RowT], frozen=True, kw_only=True):
    """A part of a list; ``next`` is the address of the next part."""

    next: str | None
    results: list[RowT]


# ---------------------------------------------------------------- accounts


class Me(Answer, frozen=True, kw_only=True):
    """The account behind the token, and the token's scope."""

    id: int
    username: str
    email: str
    role: str
    scope: str


class Token(Answer, frozen=True, kw_only=True):
    """A token without its secret; ``prefix`` is how it begins."""

    id: int
    name: str
    prefix: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class NewToken(Token, frozen=True, kw_only=True):
    """A token just made; ``token`` is shown this once."""

    token: str


class InVc(Answer, frozen=True, kw_only=True):
    """A role in a virtual cluster."""

    name: str
    role: str


class User(Answer, frozen=True, kw_only=True):
    """An account; ``virtual_clusters`` with those that groups give."""

    username: str
    email: str
    role: str
    active: bool
    uid: int | None
    gid: int | None
    extra_gids: list[int]
    groups: list[str]
    virtual_clusters: list[InVc]
    joined_at: datetime


class Group(Answer, frozen=True, kw_only=True):
    """A group, and the roles that its members have by it."""

    name: str
    description: str
    member_count: int
    virtual_clusters: list[InVc]


class GroupDetail(Group, frozen=True, kw_only=True):
    """A group with its members' names."""

    members: list[str]


class ImportFault(Answer, frozen=True, kw_only=True):
    """What is wrong with a row of a table."""

    path: str
    message: str
    code: str
    line: int | None = None


class ImportRow(Answer, frozen=True, kw_only=True):
    """What became of a row."""

    line: int
    username: str
    created: bool
    errors: list[ImportFault]


class Imported(Answer, frozen=True, kw_only=True):
    """What became of a table of accounts."""

    dry_run: bool
    created: int
    refused: int
    rows: list[ImportRow]


# ---------------------------------------------------------------- jobs


class Job(Answer, frozen=True, kw_only=True):
    """A job, as in lists. ``label`` is user/name#run."""

    id: int
    label: str
    name: str
    run: int
    user: str
    vc: str
    state: str
    priority: int
    gang: bool
    task_count: int
    gpu_count: int
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: str
    end_message: str
    exit_code: int | None
    retries: int
    waiting_code: str
    waiting_message: str

    @property
    def over(self) -> bool:
        """It has ended for good."""
        return self.state not in LIVE


class Start(Answer, frozen=True, kw_only=True):
    """When a waiting job will start: as likely before ``p50`` as after, by ``p90`` nine times in ten."""

    p50: datetime
    p90: datetime


class Score(Answer, frozen=True, kw_only=True):
    """How good past estimates were: of ``count``, ``hits`` started by their p90, half within ``off_s`` of their p50."""

    count: int
    hits: int
    off_s: int


class Waiting(Answer, frozen=True, kw_only=True):
    """Why a job waits. ``place`` counts from 1 in its virtual cluster; None: in no order (yet)."""

    code: str
    paused: bool
    message: str
    numbers: dict[str, Any]
    place: int | None
    start: Start | None
    score: Score | None
    since: datetime | None
    not_before: datetime | None


class Role(Answer, frozen=True, kw_only=True):
    """A task role with the amounts of one task; ``tasks`` counts its tasks by state."""

    name: str
    instances: int
    gpus: int
    cpu_milli: int
    memory_mb: int
    sku: str | None
    tasks: dict[str, int]


class Attempt(Answer, frozen=True, kw_only=True):
    """One run of a job."""

    number: int
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: str
    end_message: str
    exit_code: int | None
    digests: dict[str, Any]


class Code(Answer, frozen=True, kw_only=True):
    """An uploaded folder of code; ``id`` is what a job file names. Bytes of the archive and of the files in it."""

    id: str
    size: int
    unpacked: int
    entries: int
    created_at: datetime
    used_at: datetime


class CodeLimits(Answer, frozen=True, kw_only=True):
    """What the server takes: bytes of an archive, bytes and number of files in it."""

    size: int
    unpacked: int
    entries: int


class JobDetail(Job, frozen=True, kw_only=True):
    """A job from near; ``attempt`` is its newest."""

    waiting: Waiting | None
    roles: list[Role]
    attempt: Attempt | None
    code: Code | None


class Moved(Answer, frozen=True, kw_only=True):
    """Where a job waits now."""

    id: int
    label: str
    vc: str


class GpuHeld(Answer, frozen=True, kw_only=True):
    """A GPU that a task attempt holds or held."""

    index: int
    uuid: str
    standing: str


class TaskAttempt(Answer, frozen=True, kw_only=True):
    """One container, or process. ``id`` names its log."""

    id: str
    number: int
    attempt: int
    node: str
    state: str
    gpus: list[GpuHeld]
    ports: dict[str, Any]
    image_digest: str
    isolation: str
    progress: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    checkpoint_at: datetime | None
    lost_at: datetime | None
    cause: str
    exit_code: int | None
    exit_signal: int | None
    exit_message: str
    stop_reason: str
    stop_message: str
    log_end: int
    log_complete: bool


class Task(Answer, frozen=True, kw_only=True):
    """A task, its newest attempts first."""

    role: str
    index: int
    state: str
    attempts: list[TaskAttempt]

    @property
    def name(self) -> str:
        """role/index"""
        return f"{self.role}/{self.index}"


class Event(Answer, frozen=True, kw_only=True):
    """Something that happened to a job; ``actor`` is empty for Berth itself."""

    id: int
    at: datetime
    code: str
    message: str
    actor: str
    data: dict[str, Any]
    attempt: int | None
    task_attempt: str | None
    role: str | None
    index: int | None


class OtherJob(Answer, frozen=True, kw_only=True):
    """The other side of a preemption; which job it is stands there for those who may see it."""

    user: str
    vc: str
    gpus: int
    job: int | None
    label: str | None


class Preemption(Answer, frozen=True, kw_only=True):
    """GPUs that were taken back: ``lost`` says whether from this job or for it."""

    id: int
    lost: bool
    at: datetime
    deadline: datetime
    attempt: int
    tasks: int
    gpus: int
    other: OtherJob | None


class Queued(Answer, frozen=True, kw_only=True):
    """A waiting job; which it is and why it waits stands there for those who may see it."""

    place: int | None
    vc: str
    user: str
    priority: int
    task_count: int
    gpu_count: int
    submitted_at: datetime
    start: Start | None
    job: int | None
    label: str | None
    waiting_code: str | None
    waiting_message: str | None


class FileProblem(Answer, frozen=True, kw_only=True):
    """One thing wrong with a job file."""

    path: str
    message: str
    code: str
    line: int | None = None


class Summary(Answer, frozen=True, kw_only=True):
    """What a job file asks for."""

    name: str
    vc: str
    task_count: int
    gpu_count: int


class Validation(Answer, frozen=True, kw_only=True):
    """Whether a job file would be accepted."""

    valid: bool
    problems: list[FileProblem]
    hints: list[str]
    summary: Summary | None


class WouldWait(Answer, frozen=True, kw_only=True):
    """Why a job would wait."""

    code: str
    message: str
    numbers: dict[str, Any]
    place: int | None


class Estimate(Answer, frozen=True, kw_only=True):
    """What would become of a job: the ``nodes`` where it would start now, or why it would wait."""

    nodes: list[str]
    waiting: WouldWait | None
    start: Start | None
    score: Score | None


class LogSlice(Answer, frozen=True, kw_only=True):
    """A stretch of a log: ``records`` of time in ms, stream and text; ``next_offset`` is where to read on."""

    task_attempt: str
    offset: int
    next_offset: int
    complete: bool
    records: list[tuple[int, int, str]]


class File(Answer, frozen=True, kw_only=True):
    """What lies in a job's folder. ``name`` is for people; ``path`` for programs: below the folder, with ``%25`` for
    a percent sign and ``%FF`` for a byte that is no UTF-8. ``kind``: file, folder, link or other; ``size`` in bytes."""

    name: str
    path: str
    kind: str
    size: int
    changed_at: datetime


class GpuOf(Answer, frozen=True, kw_only=True):
    """A GPU of a task; ``index``: as its node counts."""

    index: int
    uuid: str


class Series(Answer, frozen=True, kw_only=True):
    """One curve: for each point mean, least and most of its readings, None where there were none. ``gpu`` is None where
    it is the whole task's."""

    metric: str
    unit: str
    gpu: GpuOf | None
    mean: list[float | None]
    min: list[float | None]
    max: list[float | None]


class Metrics(Answer, frozen=True, kw_only=True):
    """What a task attempt used: each point begins at one of ``times`` (seconds since 1970) and lasts ``seconds``."""

    task_attempt: str
    attempt: int
    role: str
    index: int
    node: str
    times: list[int]
    seconds: list[int]
    series: list[Series]


class LogRecord(Struct, frozen=True):
    """What a task wrote at once (not a line): ``stream`` is STDOUT, STDERR or MARK."""

    time_ms: int
    stream: int
    text: str


# ---------------------------------------------------------------- the cluster


class Share(Answer, frozen=True, kw_only=True):
    """A virtual cluster's GPUs of one SKU."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int
    free: int


class VirtualCluster(Answer, frozen=True, kw_only=True):
    """A virtual cluster; ``role`` is that of whoever asks (None: no member)."""

    name: str
    description: str
    role: str | None
    gpus: list[Share]


class QuotaLine(Answer, frozen=True, kw_only=True):
    """Cells of one type, guaranteed to a virtual cluster."""

    vc: str
    cell_type: str
    chain: str
    count: int
    gpus: int


class Doomed(Answer, frozen=True, kw_only=True):
    """Cells of a quota that could not be had now."""

    chain: str
    cell_type: str
    cells: int


class LoanLimit(Answer, frozen=True, kw_only=True):
    """Limits of lending for one SKU, in GPUs; None: no limit."""

    sku: str
    max_borrow: int | None
    max_lend: int | None


class FirmRight(Answer, frozen=True, kw_only=True):
    """A user's right to jobs that are never preempted."""

    user: str
    gpus: int
    last_day: str


class VirtualClusterDetail(VirtualCluster, frozen=True, kw_only=True):
    """A virtual cluster with its quota and its rules."""

    quota: list[QuotaLine]
    pinned_cells: list[str]
    weight: int
    user_factor: float | None
    user_gpus: int | None
    class_gpus: int | None
    default_borrow: str
    member_class: str
    lead_class: str
    doomed: list[Doomed]
    loan_limits: list[LoanLimit]
    firm_rights: list[FirmRight]


class UserShare(Answer, frozen=True, kw_only=True):
    """A user's part of a quota of late (0: nothing, 1: all of it all the time), and jobs."""

    user: str
    share: float | None
    running: int
    waiting: int


class Holder(Answer, frozen=True, kw_only=True):
    """Who holds a GPU; which job it is stands there for those who may see it."""

    vc: str
    user: str
    standing: str
    job: int | None
    label: str | None
    role: str | None
    index: int | None


class Gpu(Answer, frozen=True, kw_only=True):
    """A GPU of a node."""

    index: int
    uuid: str
    sku: str
    model: str
    memory_mb: int
    usable: bool
    fault: str
    holder: Holder | None


class ImageRule(Answer, frozen=True, kw_only=True):
    """Images that may run, by a shell pattern; ``vc`` None: in all virtual clusters without patterns of their own."""

    id: int
    pattern: str
    vc: str | None
    note: str
    created_at: datetime


class Alert(Answer, frozen=True, kw_only=True):
    """Something that is wrong now. ``severity``: critical, warning or info; ``kind`` and ``name`` say of what."""

    code: str
    severity: str
    kind: str
    name: str
    message: str
    advice: str
    since: datetime | None
    virtual_clusters: list[str]


class Template(Answer, frozen=True, kw_only=True):
    """A job file that is kept. ``visibility``: private, vc or public; ``author``: who wrote it last."""

    id: int
    name: str
    description: str
    visibility: str
    vc: str | None
    author: str
    changed_at: datetime


class TemplateDetail(Template, frozen=True, kw_only=True):
    """A template with its file."""

    file: str


class Storage(Answer, frozen=True, kw_only=True):
    """A folder that nodes mount; ``nodes`` are the healthy ones that offer it now, ``missing`` those that do not."""

    name: str
    kind: str
    root: str
    export: str
    read_only: bool
    per_user: bool
    must_be_mount: bool
    jobs: bool
    everyone: bool
    virtual_clusters: list[str]
    nodes: list[str]
    missing: list[str]


class GpuReading(Answer, frozen=True, kw_only=True):
    """What a GPU showed: percent, MB, watts, degrees Celsius; None where it does not tell."""

    at: datetime
    utilisation: int | None
    memory_used_mb: int | None
    power_w: int | None
    temperature_c: int | None


class LeafGpu(Answer, frozen=True, kw_only=True):
    """A GPU of the cluster. ``state``: free, held, faulty or unavailable; ``cell``: its address as a leaf cell."""

    id: int
    node: str
    index: int
    cell: str | None
    uuid: str
    sku: str
    model: str
    memory_mb: int
    state: str
    fault: str
    holder: Holder | None
    reading: GpuReading | None


class Node(Answer, frozen=True, kw_only=True):
    """A GPU server: ``intent`` is what an administrator wants of it, ``health`` what was found."""

    name: str
    intent: str
    intent_reason: str
    health: str
    health_reason: str
    clock_fault: str
    sku: str | None
    cell_type: str | None
    rack: str
    cpu_milli: int
    cpu_milli_held: int
    memory_mb: int
    memory_mb_held: int
    runtime: str
    simulated: bool
    address: str
    last_report_at: datetime | None
    gpus: list[Gpu]


class Sku(Answer, frozen=True, kw_only=True):
    """A hardware kind, counted in GPUs of the whole cluster; ``price``: of one for one hour."""

    sku: str
    gpu_model: str
    memory_mb: int
    price: Decimal | None
    gpus: int
    usable: int
    held: int
    free: int


# ---------------------------------------------------------------- usage


class UsageSums(Answer, frozen=True, kw_only=True):
    """GPU hours: held (guaranteed and on loan), of these measured, used (times utilisation) and idle; lost with work
    that was not saved. ``cost``: by today's prices, None where no SKU has one."""

    gpu_hours: float
    guaranteed_gpu_hours: float
    opportunistic_gpu_hours: float
    measured_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    wasted_gpu_hours: float
    cost: Decimal | None


class UsageRow(UsageSums, frozen=True, kw_only=True):
    """Of one group: those that the report is grouped by. ``period`` is its first day; ``user`` is None for the others
    of one's team together."""

    vc: str | None = None
    user: str | None = None
    sku: str | None = None
    period: date | None = None


class Usage(Answer, frozen=True, kw_only=True):
    """GPU hours from ``first`` to ``last`` (days in UTC, both included), of what runs up to ``until``."""

    first: date
    last: date
    until: datetime
    by: list[str]
    currency: str
    total: UsageSums
    rows: list[UsageRow]

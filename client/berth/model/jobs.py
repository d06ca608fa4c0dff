"""Jobs and their parts: tasks, attempts, events, logs, files, metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from berth.model.base import Answer

LIVE = ("waiting", "starting", "running", "stopping")
"""States of a job that is not over."""
STDOUT, STDERR, MARK = 1, 2, 3
"""Streams of a log; a mark is a line of Berth's own."""


class Job(Answer, frozen=True, kw_only=True):
    """A job, as in lists. ``label`` is user/name#run, ``started_at`` when it first ran, ``running_since`` when its
    present attempt began to run, ``ran_s`` the seconds of those that have ended."""

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
    running_since: datetime | None = None
    ran_s: float = 0.0
    ended_at: datetime | None
    end_reason: str
    end_message: str
    exit_code: int | None
    retries: int
    tags: list[str]
    waiting_code: str
    waiting_message: str

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        return self.state not in LIVE

    def ran(self, now: datetime) -> float | None:
        """Seconds that it has run by then, without the time between its attempts; None while it does not run, and where
        it never did."""
        if self.running_since is not None:
            return self.ran_s + (now - self.running_since).total_seconds()
        return self.ran_s if self.over and self.started_at is not None else None


class Start(Answer, frozen=True, kw_only=True):
    """When a waiting job will start: as likely before ``p50`` as after, by ``p90`` nine times in ten."""

    p50: datetime
    p90: datetime


class Score(Answer, frozen=True, kw_only=True):
    """Accuracy of past estimates: of ``count``, ``hits`` started by their p90, half within ``off_s`` of their p50."""

    count: int
    hits: int
    off_s: int


class Waiting(Answer, frozen=True, kw_only=True):
    """Why a job waits. ``place`` counts from 1 in its virtual cluster; None: in no order (yet)."""

    code: str
    paused: bool
    placed_by: str
    message: str
    numbers: dict[str, Any]
    place: int | None
    start: Start | None
    score: Score | None
    no_start: str = ""
    since: datetime | None
    not_before: datetime | None


class Parking(Answer, frozen=True, kw_only=True):
    """A job that is off its GPU, or on its way from it or back to it; ``lent_to`` has the GPU now."""

    state: str
    since: datetime
    node: str
    parked_mb: int
    cause: str
    fault: str
    lent_to: str


class Role(Answer, frozen=True, kw_only=True):
    """A task role with the amounts of one task; ``tasks`` counts its tasks by state. ``least``: so many of an elastic
    role's instances are its gang, the others extra tasks; None: it is not elastic."""

    name: str
    instances: int
    least: int | None = None
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
    """Limits of the server: bytes of an archive, bytes and number of files in it."""

    size: int
    unpacked: int
    entries: int


class Folder(Answer, frozen=True, kw_only=True):
    """Fate of a job's folder. ``kept_until``: when it is deleted, None where that is not known or never; ``fault``: why
    it is still there though its time is over."""

    kept_until: datetime | None
    deleted_at: datetime | None
    fault: str


class JobDetail(Job, frozen=True, kw_only=True):
    """A job in full; ``attempt`` is its newest. ``folder`` is None from a server that does not report it,
    ``parking`` where the attempt was never parked."""

    waiting: Waiting | None
    roles: list[Role]
    attempt: Attempt | None
    code: Code | None
    folder: Folder | None = None
    parking: Parking | None = None


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


class Ssh(Answer, frozen=True, kw_only=True):
    """SSH access to a running task. ``state``: asked (its server is being started), open, none (``message`` says why).
    ``host_key`` as in known_hosts, ``alias`` a name for it, ``command`` what to type."""

    state: str
    host: str
    port: int | None
    user: str
    host_key: str
    alias: str
    command: str
    message: str


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
    ssh: Ssh | None = None


class Task(Answer, frozen=True, kw_only=True):
    """A task, its newest attempts first. ``not_before``: until then it waits to be tried again. ``extra``: of an
    elastic role, it comes and goes while its job runs."""

    role: str
    index: int
    extra: bool = False
    state: str
    not_before: datetime | None = None
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
    """The other side of a preemption; its job is named for those who may see it."""

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


class Tags(Answer, frozen=True, kw_only=True):
    """A job's tags, oldest first."""

    tags: list[str]


class Queued(Answer, frozen=True, kw_only=True):
    """A waiting job; its name and reason are there for those who may see them."""

    place: int | None
    vc: str
    user: str
    priority: int
    task_count: int
    gpu_count: int
    submitted_at: datetime
    start: Start | None
    reserved: bool
    kept_gpus: int
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
    """Forecast for a job: the ``nodes`` where it would start now, or why it would wait."""

    nodes: list[str]
    waiting: WouldWait | None
    start: Start | None
    score: Score | None
    no_start: str = ""


class LogSlice(Answer, frozen=True, kw_only=True):
    """A slice of a log: ``records`` of time in ms, stream and text; ``next_offset`` is where to read on; ``lost_with``:
    the server that is gone with the rest of it; ``tail``: unfinished lines as printed so far, until the next slice."""

    task_attempt: str
    offset: int
    next_offset: int
    complete: bool
    lost_with: str = ""
    deleted_at: datetime | None = None
    deleted_because: str = ""
    records: list[tuple[int, int, str]]
    tail: list[tuple[int, int, str]] = []


class File(Answer, frozen=True, kw_only=True):
    """An entry of a job's folder. ``name`` is for people; ``path`` for programs: below the folder, with ``%25`` for a
    percent sign and ``%FF`` for a byte that is no UTF-8. ``kind``: file, folder, link or other; ``size`` in bytes."""

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
    """Resource usage of a task attempt: each point begins at one of ``times`` (seconds since 1970) and lasts
    ``seconds``."""

    task_attempt: str
    attempt: int
    role: str
    index: int
    node: str
    times: list[int]
    seconds: list[int]
    series: list[Series]


class Advice(Answer, frozen=True, kw_only=True):
    """One piece of advice: a code, a sentence, and the numbers that it rests on."""

    code: str
    message: str
    numbers: dict[str, int]


class JobAdvice(Answer, frozen=True, kw_only=True):
    """Advice on a job from its readings."""

    advice: list[Advice]


class LogRecord(Struct, frozen=True):
    """One write of a task (not a line): ``stream`` is STDOUT, STDERR or MARK."""

    time_ms: int
    stream: int
    text: str

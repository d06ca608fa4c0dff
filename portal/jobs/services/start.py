"""Starts jobs: decisions become rows and orders, for many jobs together, so that no start costs queries of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django.db.models import Count, F, Max, Q
from prometheus_client import Histogram

from nodes.protocol.states import ContainerState, Phase
from nodes.protocol.wording import stored
from portal.common.bulk import keys_listed, rows_insert
from portal.common.moves import sources
from portal.common.prepared import Among, Prepared
from portal.data_folder.models import Restore
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_bump
from portal.job_file.model import JobSpec
from portal.jobs import wordings
from portal.jobs.container import MASTER_PORT_LABEL, PAI_PORTS, SSH_ASKED
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Task, TaskAttempt
from portal.jobs.services.claims import claims_convert
from portal.jobs.services.placement import NoPortLeft, Overtaken, Placed
from portal.jobs.services.transitions import jobs_announce, tasks_move, tasks_running
from portal.jobs.states import JOB_MOVES, AttemptState, JobState, TaskState

QUEUED_SECONDS = Histogram(
    "berth_job_queued_seconds", "From a job's submission to the start of its first attempt", ["vc"],
    buckets=(1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Starting:
    """A job and its tasks' placements."""

    job: Job
    placed: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A job with the attempt in which its tasks run."""

    job: Job
    placed: tuple[Placed, ...]
    attempt: JobAttempt
    spec: JobSpec
    grows: bool  # an elastic job that runs, by extra tasks


def attempts_start(*, starts: Sequence[Starting], now: datetime) -> list[JobAttempt]:
    """Starts all of them or none; the caller's transaction holds the jobs' rows and has checked the nodes' versions.

    Raises Overtaken when a job or a task no longer waits, or another job has claimed a leaf; IntegrityError when a leaf
    has a holder; NoPortLeft.
    """
    claims_convert({start.job.pk: start.placed for start in starts})
    begun, events = _attempts_open(starts, now)
    placed = [place for one in begun for place in one.placed]
    waiting = Task.objects.filter(pk__in=keys_listed(Task, [place.task_id for place in placed]))
    if tasks_move(waiting, TaskState.STARTING) != len(placed):
        raise Overtaken
    nodes = {node.pk: node for node in _NODES(nodes={place.node_id for place in placed})}
    rows = _task_attempts(begun, nodes, nodes_bump(nodes), now)
    rows_insert(TaskAttempt, _Row._fields, rows)
    rows_insert(Allocation, _Hold._fields, _allocations(rows, placed, now))
    sizes = tasks_running([one.job.pk for one in begun if one.grows])
    events += [event for one in begun for event in _events(one, nodes, sizes, now)]
    rows_insert(JobEvent, _Event._fields, events)
    jobs_announce([start.job for start in starts])
    _count([one.job for one in begun if one.attempt.number == 1], now)
    return [one.attempt for one in begun]


_NODES = Prepared(
    lambda: Node.objects.filter(Among("id", "nodes")).order_by().only("name", "port_first", "port_last", "inventory")
)


def _count(jobs: Sequence[Job], now: datetime) -> None:
    """Records the queueing time of jobs that start for the first time."""
    for job in jobs:
        QUEUED_SECONDS.labels(job.vc.name).observe((now - job.submitted_at).total_seconds())


# ---------------------------------------------------------------- the attempts


def _attempts_open(starts: Sequence[Starting], now: datetime) -> tuple[list[_Begun], list[_Event]]:
    """The attempts, new except for further tasks of running jobs, and the events of the new ones."""
    jobs = [start.job.pk for start in starts]
    live = {attempt.job_id: attempt for attempt in _ATTEMPTS(jobs=jobs)}
    before = dict(_COUNTED(jobs=jobs))
    if any(one.state == AttemptState.ENDING for one in live.values()):
        raise Overtaken
    specs = {start.job.pk: JobSpec.from_json(start.job.spec) for start in starts}
    if any(_starts_gang(start, specs[start.job.pk]) for start in starts if start.job.pk in live):
        raise Overtaken
    fresh = {start.job.pk: start.job for start in starts if start.job.pk not in live}
    made = [JobAttempt(job=job, number=before.get(key, 0) + 1, created_at=now) for key, job in fresh.items()]
    _jobs_move(made)
    new = [(one.job_id, one.number, now) for one in made]
    keys = dict(rows_insert(JobAttempt, ("job", "number", "created_at"), new, returning=("job", "id")))
    for attempt in made:
        attempt.pk = keys[attempt.job_id]
        live[attempt.job_id] = attempt
    begun = [
        _Begun(
            start.job, start.placed, live[start.job.pk], specs[start.job.pk],
            grows=start.job.gang and start.job.pk not in fresh,
        )
        for start in starts
    ]  # fmt: skip
    return begun, [_event(one, "starting", wordings.STARTING(number=one.number), now, of_attempt=False) for one in made]


def _starts_gang(start: Starting, spec: JobSpec) -> bool:
    """Whether tasks of a gang are among those to start: it starts once in an attempt, extra tasks also later."""
    return start.job.gang and any(place.index < spec.role(place.role).least for place in start.placed)


_ATTEMPTS = Prepared(
    lambda: JobAttempt.objects.filter(Among("job", "jobs")).exclude(state=AttemptState.ENDED).order_by()
)
_COUNTED = Prepared(
    lambda: JobAttempt.objects.filter(Among("job", "jobs")).order_by().values_list("job").annotate(count=Count("pk"))
)


def _jobs_move(attempts: Iterable[JobAttempt]) -> None:
    by_number: dict[int, list[int]] = defaultdict(list)
    for attempt in attempts:
        by_number[attempt.number].append(attempt.job_id)
        attempt.job.state, attempt.job.retries = JobState.STARTING, attempt.number - 1
    for number, jobs in by_number.items():
        waiting = Job.objects.filter(
            pk__in=keys_listed(Job, jobs), paused=False, state__in=sources(JOB_MOVES, JobState.STARTING)
        )
        moved = waiting.update(
            state=JobState.STARTING, retries=number - 1, waiting_code="", waiting_message="", waiting_numbers={}
        )
        if moved != len(jobs):
            raise Overtaken


# ---------------------------------------------------------------- the tasks


class _Row(NamedTuple):
    """A new task attempt."""

    id: UUID
    task: int
    job_attempt: int
    number: int
    node: int
    phase: str
    phase_since: int
    pinned_digest: str
    cpu_milli: int
    memory_mb: int
    ports: dict[str, list[int]]
    ssh: dict[str, str]
    waits_for: str
    created_at: datetime


def _task_attempts(
    begun: Sequence[_Begun], nodes: Mapping[int, Node], generations: Mapping[int, int], now: datetime
) -> list[_Row]:
    # a new gang has no earlier runs
    again = [one for one in begun if one.attempt.number > 1 or not one.job.gang or one.spec.elastic]
    tasks = [place.task_id for one in again for place in one.placed]
    numbers = dict(_NUMBERS(tasks=tasks) if tasks else ())
    ports = _ports_choose(begun, nodes, generations)
    writing, past = _still_writing([one.job.pk for one in again]), _of_a_lost_past(begun)
    return [
        _Row(
            id=uuid4(),
            task=place.task_id,
            job_attempt=one.attempt.pk,
            number=numbers.get(place.task_id, 0) + 1,
            node=place.node_id,
            phase=str(_first_phase(one.spec, digest)),
            phase_since=generations[place.node_id],
            pinned_digest=digest,
            cpu_milli=place.cpu_milli,
            memory_mb=place.memory_mb,
            ports=ports[place.task_id],
            ssh=SSH_ASKED if one.spec.asks_ssh(place.role) else {},
            waits_for=writing.get(one.job.pk) or past.get(place.task_id, ""),
            created_at=now,
        )
        for one in begun
        for place in one.placed
        for digest in [one.attempt.digests.get(one.spec.role(place.role).image.uri, "")]
    ]


_NUMBERS = Prepared(
    lambda: TaskAttempt.objects.filter(Among("task", "tasks")).order_by().values_list("task").annotate(Max("number"))
)


def _first_phase(spec: JobSpec, pinned: str) -> Phase:
    """RUN for a task that waits for no other, or whose digest is already agreed; else PREPARE."""
    return Phase.RUN if spec.task_count == 1 or pinned else Phase.PREPARE


def _still_writing(jobs: Sequence[int]) -> dict[int, str]:
    """By job, the newest earlier task attempt that may still write the job's folder: it was given up, outlived SIGKILL,
    or left processes on its GPUs, and nobody has reported it gone. Of a removed node the portal only assumed so."""
    if not jobs:
        return {}
    over = Q(lost_at__isnull=False) | Q(state=ContainerState.TERMINATED)
    unheard = Q(released_at=None) | Q(released_at__gte=F("node__removed_at"))
    rows = TaskAttempt.objects.filter(over, unheard, task__job__in=jobs).order_by("created_at")
    found = rows.values_list("task__job", "job_attempt__number", "node__name")
    return {job: f"attempt {number} on {node}" for job, number, node in found}


def _of_a_lost_past(begun: Sequence[_Begun]) -> dict[int, str]:
    """Tasks of jobs from before the portal's last restore that have not run since: what was started of them after the
    backup is unknown here and may still write. A task that ran has waited for that."""
    last = _LAST_RESTORE.first()
    if last is None:
        return {}
    tasks = [place.task_id for one in begun if one.job.submitted_at < last.at for place in one.placed]
    if not tasks:
        return {}
    ran = TaskAttempt.objects.filter(task__in=tasks, created_at__gt=last.at, started_at__isnull=False)
    known = set(ran.order_by().values_list("task", flat=True))
    return {task: "what was started of it since the backup" for task in tasks if task not in known}


_LAST_RESTORE = Prepared(lambda: Restore.objects.order_by("-at")[:1])


class _Hold(NamedTuple):
    """A new allocation."""

    task_attempt: UUID
    leaf: int
    virtual_cell: str
    standing: str
    since: datetime
    created_at: datetime


def _allocations(rows: Iterable[_Row], placed: Sequence[Placed], now: datetime) -> list[_Hold]:
    return [
        _Hold(row.id, leaf.gpu_id, leaf.virtual_cell, leaf.standing, since=now, created_at=now)
        for row, place in zip(rows, placed, strict=True)
        for leaf in place.leaves
    ]


# ---------------------------------------------------------------- ports


PORTS_ONWARD = 8
"""How many ports further on each placement on a node begins."""


def _ports_choose(
    begun: Sequence[_Begun], nodes: Mapping[int, Node], generations: Mapping[int, int]
) -> dict[int, dict[str, list[int]]]:
    """Free ports of each task's node: what its role declares, OpenPAI's own labels, and the master's.

    Ports that the node reports as in use come last. Each placement starts further on in the node's range than the last:
    starting at the lowest free port would retry, again and again, a port that was taken since or is still held by a
    dead Docker proxy.
    """
    held: dict[int, set[int]] = defaultdict(set)
    for node_id, ports in _PORTS(nodes=nodes):
        held[node_id].update(port for numbers in ports.values() for port in numbers)
    return {
        place.task_id: _ports_take(
            _ports_from(nodes[place.node_id], generations[place.node_id]),
            held[place.node_id],
            ports_wanted(one.spec, place.role, place.index),
            nodes[place.node_id].name,
            one.job,
        )
        for one in begun
        for place in one.placed
    }


_PORTS = Prepared(
    lambda: (
        TaskAttempt.objects.filter(Among("node", "nodes"), released_at=None).order_by().values_list("node_id", "ports")
    )
)


def ports_wanted(spec: JobSpec, role: str, index: int) -> dict[str, int]:
    """How many ports this task holds on its node, by label."""
    wanted = dict.fromkeys(PAI_PORTS, 1) | dict(spec.role(role).resources.ports)
    if index == 0 and spec.task_count > 1 and (role == spec.roles[0].name or spec.role(role).elastic):
        wanted[MASTER_PORT_LABEL] = 1
    return wanted


def _ports_from(node: Node, generation: int) -> Iterator[int]:
    """Every port of the node's range once, from this generation's start, busy ones last; nothing for an empty range."""
    ports, busy = range(node.port_first, node.port_last + 1), frozenset(node.inventory.get("ports_busy", ()))
    begin = generation * PORTS_ONWARD
    for last in (False, True):
        turned = (ports[(begin + step) % len(ports)] for step in range(len(ports)))
        yield from (port for port in turned if (port in busy) is last)


def _ports_take(
    ports: Iterator[int], held: set[int], wanted: Mapping[str, int], node: str, job: Job
) -> dict[str, list[int]]:
    free = (port for port in ports if port not in held)
    taken = {label: [port for _, port in zip(range(count), free, strict=False)] for label, count in wanted.items()}
    if any(len(taken[label]) < count for label, count in wanted.items()):
        raise NoPortLeft(node, sum(wanted.values()), job)
    held.update(port for numbers in taken.values() for port in numbers)
    return taken


# ---------------------------------------------------------------- events


def _events(one: _Begun, nodes: Mapping[int, Node], sizes: Mapping[int, int], now: datetime) -> Iterator[_Event]:
    """``sizes``: how many tasks each job that grows has now."""
    names = sorted({nodes[place.node_id].name for place in one.placed})
    if one.grows:
        size = wordings.TASKS(number=sizes[one.job.pk])
        yield _event(one.attempt, "grew", wordings.GREW(tasks=size, more=len(one.placed), nodes=names), now)
        return
    tasks = wordings.TASKS(number=len(one.placed))
    message = wordings.PLACED(number=one.attempt.number, tasks=tasks, nodes=names)
    yield _event(one.attempt, "placed", message, now)
    beside = Counter((place.role, place.node_id) for place in one.placed if len(place.leaves) == 1)
    for (role, _), count in sorted(beside.items()):
        if count > 1:
            yield _event(one.attempt, "hint", wordings.NO_NVLINK(number=count, role=role, gpus=count), now)


def _event(attempt: JobAttempt, code: str, message: str, now: datetime, *, of_attempt: bool = True) -> _Event:
    return _Event(attempt.job_id, attempt.pk if of_attempt else None, now, code, stored(message))


class _Event(NamedTuple):
    """A new event."""

    job: int
    job_attempt: int | None
    at: datetime
    code: str
    data: dict[str, Any]

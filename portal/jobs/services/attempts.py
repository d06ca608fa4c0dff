"""The life of a job attempt: placed, started together, ended once through one door."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q

from nodes.protocol import ContainerState, Phase, StopReason
from portal.clusters.models import Node
from portal.jobs.models import Allocation, Job, JobAttempt, Task, TaskAttempt
from portal.jobs.services.claims import claims_convert
from portal.jobs.services.environment import MASTER_PORT_LABEL, PAI_PORTS
from portal.jobs.services.moves import attempt_move, job_event, job_hold, job_move, tasks_move
from portal.jobs.services.orders import nodes_bump
from portal.jobs.services.placing import NoPortLeft, Overtaken, Placed
from portal.jobs.spec import JobSpec
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState

LIVE = Q(lost_at__isnull=True) & ~Q(state=str(ContainerState.TERMINATED))
"""Task attempts that still decide something."""


def attempt_start(*, job: Job, placed: Sequence[Placed], now: datetime) -> JobAttempt:
    """Turn a decision into rows and orders; the caller's transaction has checked the nodes' versions.

    Raises Overtaken when the job or a task is not waiting any more, or another has claimed a leaf; IntegrityError
    when a leaf has a holder.
    """
    claims_convert(job=job, placed=placed)
    attempt = _attempt_open(job, now)
    waiting = Task.objects.filter(pk__in=[place.task_id for place in placed])
    if tasks_move(waiting, TaskState.STARTING) != len(placed):
        raise Overtaken
    rows = _task_attempts_make(job, attempt, placed, now)
    TaskAttempt.objects.bulk_create(rows)
    Allocation.objects.bulk_create(_allocations(rows, placed, now))
    generations = nodes_bump({row.node_id for row in rows})
    for node_id, generation in generations.items():
        TaskAttempt.objects.filter(node_id=node_id, phase_since=0).update(phase_since=generation)
    names = ", ".join(Node.objects.filter(pk__in=generations).order_by("name").values_list("name", flat=True))
    job_event(
        job=job, job_attempt=attempt, code="placed", now=now,
        message=f"Attempt {attempt.number}: {len(rows)} task{'s' * (len(rows) != 1)} placed on {names}.",
    )  # fmt: skip
    _hint_split_gpus(job, attempt, placed, now)
    return attempt


def _hint_split_gpus(job: Job, attempt: JobAttempt, placed: Sequence[Placed], now: datetime) -> None:
    beside = Counter((place.role, place.node_id) for place in placed if len(place.leaves) == 1)
    for (role, _), count in sorted(beside.items()):
        if count > 1:
            message = (
                f"{count} tasks of {role} with one GPU each share a node: containers have no NVLink between them. "
                f"One task with {count} GPUs would."
            )
            job_event(job=job, job_attempt=attempt, code="hint", message=message, now=now)


def _attempt_open(job: Job, now: datetime) -> JobAttempt:
    live = job.attempts.exclude(state=AttemptState.ENDED).first()
    if live is not None:
        if job.gang or live.state == AttemptState.ENDING:
            raise Overtaken
        return live
    number = job.attempts.count() + 1
    moved = job_move(
        job, JobState.STARTING, now=now, code="starting", message=f"Attempt {number} starts.",
        retries=number - 1, waiting_code="", waiting_message="", waiting_numbers={},
    )  # fmt: skip
    if not moved:
        raise Overtaken
    return JobAttempt.objects.create(job=job, number=number, created_at=now)


def _task_attempts_make(job: Job, attempt: JobAttempt, placed: Sequence[Placed], now: datetime) -> list[TaskAttempt]:
    spec = JobSpec.from_json(job.spec)
    numbers = dict(
        TaskAttempt.objects.filter(task__in=[place.task_id for place in placed])
        .values_list("task")
        .annotate(newest=Max("number"))
    )
    ports = _ports_choose(spec, placed)
    waits_for = _still_writing(job)
    pinned = {place.task_id: attempt.digests.get(spec.role(place.role).image.uri, "") for place in placed}
    return [
        TaskAttempt(
            task_id=place.task_id,
            job_attempt=attempt,
            number=numbers.get(place.task_id, 0) + 1,
            node_id=place.node_id,
            phase=_first_phase(spec, pinned[place.task_id]),
            pinned_digest=pinned[place.task_id],
            cpu_milli=place.cpu_milli,
            memory_mb=place.memory_mb,
            ports=ports[place.task_id],
            waits_for=waits_for,
            created_at=now,
        )
        for place in placed
    ]


def _first_phase(spec: JobSpec, pinned: str) -> Phase:
    """A task that waits for no other, and whose digest need not be agreed on any more, runs as soon as it can."""
    return Phase.RUN if spec.task_count == 1 or pinned else Phase.PREPARE


def _still_writing(job: Job) -> str:
    """An earlier task attempt of the job that was given up with its node and may still write its folder."""
    row = (
        TaskAttempt.objects.filter(task__job=job, lost_at__isnull=False, released_at__isnull=True)
        .select_related("job_attempt", "node")
        .order_by("-created_at")
        .first()
    )
    return f"attempt {row.job_attempt.number} on {row.node.name}" if row else ""


def _ports_choose(spec: JobSpec, placed: Sequence[Placed]) -> dict[int, dict[str, list[int]]]:
    """Free ports of each task's node: what its role declares, OpenPAI's own labels, and the master's."""
    nodes = Node.objects.in_bulk({place.node_id for place in placed})
    held: dict[int, set[int]] = defaultdict(set)
    rows = TaskAttempt.objects.filter(node_id__in=nodes, released_at__isnull=True).values_list("node_id", "ports")
    for node_id, ports in rows:
        held[node_id].update(port for numbers in ports.values() for port in numbers)
    first = (spec.roles[0].name, 0)
    chosen: dict[int, dict[str, list[int]]] = {}
    for place in placed:
        wanted = dict.fromkeys(PAI_PORTS, 1) | dict(spec.role(place.role).resources.ports)
        if (place.role, place.index) == first and spec.task_count > 1:
            wanted[MASTER_PORT_LABEL] = 1
        chosen[place.task_id] = _ports_take(nodes[place.node_id], held[place.node_id], wanted)
    return chosen


def _ports_take(node: Node, held: set[int], wanted: dict[str, int]) -> dict[str, list[int]]:
    free = (port for port in range(node.port_first, node.port_last + 1) if port not in held)
    taken = {label: [port for _, port in zip(range(count), free, strict=False)] for label, count in wanted.items()}
    if any(len(taken[label]) < count for label, count in wanted.items()):
        raise NoPortLeft(node.name, sum(wanted.values()))
    held.update(port for ports in taken.values() for port in ports)
    return taken


def _allocations(rows: list[TaskAttempt], placed: Sequence[Placed], now: datetime) -> list[Allocation]:
    return [
        Allocation(
            task_attempt=row,
            leaf_id=leaf.gpu_id,
            virtual_cell=leaf.virtual_cell,
            standing=leaf.standing,
            since=now,
            created_at=now,
        )
        for row, place in zip(rows, placed, strict=True)
        for leaf in place.leaves
    ]


# ---------------------------------------------------------------- starting together


def attempt_run_when_prepared(*, attempt: JobAttempt, now: datetime) -> bool:
    """Order the start once every task that must start together is prepared with one digest per image.

    The job's row is held from here on: of two last PREPARED reports one then sees both.
    """
    with transaction.atomic():
        job_hold(attempt.job_id)
        if not JobAttempt.objects.filter(pk=attempt.pk, end_reason="").exists():
            return False
        rows = list(TaskAttempt.objects.filter(LIVE, job_attempt=attempt).select_related("task__role"))
        ready = [row for row in rows if row.phase == Phase.PREPARE and row.state == ContainerState.PREPARED]
        if attempt.job.gang and len(ready) < len(rows):
            return False
        settled = _digests_settle(attempt, ready)
        if attempt.job.gang and len(settled) < len(ready):
            return False
        return _phase_order(settled, Phase.RUN)


def _digests_settle(attempt: JobAttempt, ready: list[TaskAttempt]) -> list[TaskAttempt]:
    """The tasks that have the attempt's digest; the others are told to prepare it."""
    attempt.refresh_from_db(fields=["digests"])
    images = {role.name: role.image.uri for role in JobSpec.from_json(attempt.job.spec).roles}
    digests = dict(attempt.digests)
    settled: list[TaskAttempt] = []
    other: list[TaskAttempt] = []
    for row in ready:
        image = images[row.task.role.name]
        agreed = digests.setdefault(image, row.digest)
        (settled if row.digest == agreed else other).append(row)
    if digests != attempt.digests:
        JobAttempt.objects.filter(pk=attempt.pk).update(digests=digests)
    for row in other:
        TaskAttempt.objects.filter(pk=row.pk).update(
            pinned_digest=digests[images[row.task.role.name]], state=ContainerState.ACCEPTED, spec_hash=""
        )
    nodes_bump({row.node_id for row in other})
    return settled


def attempt_digest_note(*, row: TaskAttempt) -> None:
    """What a task runs that did not wait for others is the attempt's digest; inside the caller's transaction, which
    holds the job's row."""
    attempt = row.job_attempt
    attempt.refresh_from_db(fields=["digests"])
    image = JobSpec.from_json(attempt.job.spec).role(row.task.role.name).image.uri
    if image not in attempt.digests:
        JobAttempt.objects.filter(pk=attempt.pk).update(digests={**attempt.digests, image: row.digest})


def _phase_order(rows: Iterable[TaskAttempt], phase: Phase) -> bool:
    by_node: dict[int, list[TaskAttempt]] = defaultdict(list)
    for row in rows:
        by_node[row.node_id].append(row)
    for node_id, generation in nodes_bump(by_node).items():
        ids = [row.pk for row in by_node[node_id]]
        TaskAttempt.objects.filter(pk__in=ids).update(phase=phase, phase_since=generation)
    return bool(by_node)


def attempt_running(*, attempt: JobAttempt, now: datetime) -> None:
    """The attempt runs: a gang once all its tasks have run, any other with its first."""
    rows = TaskAttempt.objects.filter(job_attempt=attempt)
    if attempt.job.gang and rows.filter(started_at__isnull=True).exists():
        return
    with transaction.atomic():
        message = f"Attempt {attempt.number} runs."
        if attempt_move(
            attempt, AttemptState.RUNNING, now=now, code="attempt_running", message=message, started_at=now
        ):
            job = attempt.job
            job_move(
                job, JobState.RUNNING, now=now, code="running", message=f"{job.label} runs.",
                started_at=job.started_at or now,
            )  # fmt: skip


# ---------------------------------------------------------------- the one door out


def attempt_end(
    *,
    attempt: JobAttempt,
    reason: EndReason,
    message: str,
    now: datetime,
    behaviour: str = "",
    exit_code: int | None = None,
    stop: StopReason = StopReason.SIBLING,
    grace_s: int | None = None,
) -> bool:
    """Set the attempt's end reason, once, and tell its live tasks to stop. False: it had one already."""
    with transaction.atomic():
        job_hold(attempt.job_id)
        attempt_is_first = attempt_move(
            attempt, AttemptState.ENDING, now=now, code=f"ending_{reason}", message=message,
            end_reason=reason, end_message=message, end_behaviour=behaviour, exit_code=exit_code,
        )  # fmt: skip
        if attempt_is_first:
            live = TaskAttempt.objects.filter(LIVE, job_attempt=attempt)
            tasks_stop(live, reason=stop, message=message, grace_s=grace_s)
    return attempt_is_first


def tasks_stop(rows: Iterable[TaskAttempt], *, reason: StopReason, message: str, grace_s: int | None = None) -> None:
    """Order these task attempts to stop, inside the caller's transaction; those ordered before keep their reason."""
    grace = settings.DEFAULT_GRACE_S if grace_s is None else grace_s
    by_node: dict[int, list[TaskAttempt]] = defaultdict(list)
    for row in rows:
        by_node[row.node_id].append(row)
    for node_id, generation in nodes_bump(by_node).items():
        TaskAttempt.objects.filter(
            pk__in=[row.pk for row in by_node[node_id]], phase__in=[Phase.PREPARE, Phase.RUN]
        ).update(phase=Phase.STOP, phase_since=generation, stop_reason=reason, stop_message=message, stop_grace_s=grace)

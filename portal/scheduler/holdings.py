"""Held and claimed leaf cells: rows -> the engine's running tasks, claims and demotions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

import scheduling
from nodes.protocol.states import ContainerState, Phase
from portal.common.prepared import Prepared
from portal.common.row_versions import KeptRows, Row, changed
from portal.hardware.selectors.leaf_cells import GivenUp
from portal.jobs.models import Allocation, Claim, Demotion, TaskAttempt
from portal.scheduler.dependencies import job_key
from portal.scheduler.facts import ms_of
from portal.scheduler.snapshot_jobs import JobRows
from portal.teams.selectors.engine_cluster import ClusterRows

LEAVING = {Phase.STOP, Phase.REMOVE}


class Use(NamedTuple):
    """A live allocation's row."""

    id: int
    task_attempt: str
    gpu: int
    virtual_cell: str
    standing: str
    since: str


class Placed(NamedTuple):
    """Row of a task attempt that holds its placement. Id and times are texts, since only few are ever parsed."""

    id: str
    role: str
    number: int  # the task's index in its role
    job: int
    node: int
    cpu_milli: int
    memory_mb: int
    state: str
    phase: str
    lost_at: str | None
    started_at: str | None
    created_at: str
    checkpoint_at: str | None

    @property
    def given_up(self) -> bool:
        """Whether it is lost with its node, or ended with processes left: it still holds its resources, but nobody
        counts on them."""
        return self.lost_at is not None or self.state == ContainerState.TERMINATED


def _text(column: str) -> Cast:
    return Cast(column, TextField())


_attempts = KeptRows(
    lambda: TaskAttempt.objects.filter(released_at__isnull=True),
    [
        _text("id"), "task__role__name", "task__index", "job_attempt__job", "node", "cpu_milli", "memory_mb",
        "state", "phase", *map(_text, ("lost_at", "started_at", "created_at", "checkpoint_at")),
    ],
    key=str,
)  # fmt: skip
"""Columns of ``Placed``."""

_allocations = KeptRows(
    lambda: Allocation.objects.filter(released_at__isnull=True),
    ["id", _text("task_attempt"), "leaf", "virtual_cell", "standing", _text("since")],
    key=int,
)
"""Columns of ``Use``."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """All live rows, as read and as needed, by task attempt."""

    attempts: dict[str, Row] = field(default_factory=dict)
    allocations: dict[int, Row] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)
    held: dict[str, tuple[Use, ...]] = field(default_factory=dict)  # in the order of the GPUs' ids


_rows = _Rows()
"""Rows last read."""


def _rows_read() -> _Rows:
    """Processes only what has changed since the last reading."""
    global _rows
    last, attempts, allocations = _rows, _attempts.read(), _allocations.read()
    if attempts is last.attempts and allocations is last.allocations:
        return last
    _rows = _Rows(attempts, allocations, _placed(last, attempts), _held(last, allocations))
    return _rows


def _placed(last: _Rows, attempts: Mapping[str, Row]) -> dict[str, Placed]:
    new = {key: Placed._make(row) for key, row in attempts.items() if last.attempts.get(key) is not row}
    return changed(last.placed, last.attempts.keys() - attempts.keys(), new)


def _held(last: _Rows, allocations: Mapping[int, Row]) -> dict[str, tuple[Use, ...]]:
    new = [Use._make(row) for key, row in allocations.items() if last.allocations.get(key) is not row]
    gone = [Use._make(last.allocations[key]) for key in last.allocations.keys() - allocations.keys()]
    came: dict[str, list[Use]] = {use.task_attempt: [] for use in (*new, *gone)}
    for use in new:
        came[use.task_attempt].append(use)
    left, held = {use.id for use in (*new, *gone)}, dict(last.held)
    for attempt, uses in came.items():
        uses += (use for use in held.pop(attempt, ()) if use.id not in left)
        if uses:
            held[attempt] = tuple(sorted(uses, key=attrgetter("gpu")))
    return held


class _Task(NamedTuple):
    """An engine task and its inputs."""

    row: Placed
    uses: tuple[Use, ...]
    task: scheduling.RunningTask


class _Kept(NamedTuple):
    """Results of the last reading, and their cluster."""

    cluster: scheduling.Cluster
    leaf_ids: Mapping[int, str]
    tasks: dict[str, _Task]
    by_job: dict[int, list[scheduling.RunningTask]]
    running: dict[int, scheduling.Running]


_kept: list[_Kept] = []


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims for the engine, each one's row by leaf, and rows that can no longer come true."""

    live: tuple[scheduling.Claim, ...]
    rows: dict[str, int]
    stale: tuple[int, ...]


class Holdings:
    """Reads everything at once, before the cluster: what was given up is part of the cluster's health."""

    def __init__(self) -> None:
        rows = _rows_read()
        self._held, gone = rows.held, [row for row in rows.placed.values() if row.given_up]
        self._gone, self._placed = gone, changed(rows.placed, [row.id for row in gone], {})

    def given_up(self) -> GivenUp:
        """Resources of tasks that were given up."""
        amounts: dict[int, tuple[int, int]] = {}
        for row in self._gone:
            cpu_milli, memory_mb = amounts.get(row.node, (0, 0))
            amounts[row.node] = (cpu_milli + row.cpu_milli, memory_mb + row.memory_mb)
        return GivenUp(frozenset(use.gpu for row in self._gone for use in self._held.get(row.id, ())), amounts)

    def running(self, jobs: JobRows, cluster: ClusterRows) -> tuple[scheduling.Running, ...]:
        """Running jobs with their placed tasks; the last reading's objects if unchanged. A job that has ended since the
        tasks were read, if the caller's transaction sees that, is left out."""
        last = _kept_for(cluster)
        tasks = self._tasks(cluster, last.tasks)
        by_job: dict[int, list[scheduling.RunningTask]] = defaultdict(list)
        for row in self._placed.values():
            by_job[row.job].append(tasks[row.id].task)
        running = {key: _running(jobs.jobs[key], every, key, last) for key, every in by_job.items() if key in jobs.jobs}
        _kept[:] = [_Kept(cluster.cluster, cluster.leaf_ids, tasks, by_job, running)]
        return tuple(running[job] for job in sorted(running, key=job_key))

    def _tasks(self, cluster: ClusterRows, before: Mapping[str, _Task]) -> dict[str, _Task]:
        tasks, names = {}, {node.pk: name for name, node in cluster.nodes.items()}
        for key, row in self._placed.items():
            uses, last = self._held.get(key, ()), before.get(key)
            if last is not None and last.row is row and last.uses is uses:
                tasks[key] = last
            else:
                tasks[key] = _Task(row, uses, _task(row, uses, names[row.node], cluster.leaf_ids))
        return tasks

    def attempts(self) -> dict[tuple[str, str, int], str]:
        """Attempts of placed tasks, by job (engine id), role and index."""
        return {(job_key(row.job), row.role, row.number): row.id for row in self._placed.values()}

    def claims(self, jobs: JobRows, cluster: ClusterRows) -> Claims:
        """Claims of live jobs; none of a job that can no longer have one of its leaves."""
        rows = _CLAIMS()
        if not rows:
            return Claims((), {}, ())
        holders = {use.gpu: row.job for row in self._placed.values() for use in self._held.get(row.id, ())}
        gone = {
            claimant
            for _, gpu, claimant, *_ in rows
            if claimant not in jobs.jobs or cluster.gpus.get(cluster.leaf_ids.get(gpu, "")) != gpu
        }
        live, keys = [], {}
        for key, gpu, claimant, role, index, cell in rows:
            if claimant not in gone:
                leaf, victim = cluster.leaf_ids[gpu], holders.get(gpu)
                keys[leaf] = key
                live.append(
                    scheduling.Claim(
                        leaf=leaf,
                        claimant=job_key(claimant),
                        victim=job_key(victim) if victim is not None else None,
                        virtual_cell=cell,
                        task=scheduling.TaskRef(role, index),
                    )
                )
        return Claims(tuple(live), keys, tuple(key for key, _, claimant, *_ in rows if claimant in gone))


def demotions_read(jobs: Mapping[int, scheduling.Job]) -> tuple[scheduling.Demotion, ...]:
    """Demotions of live jobs."""
    return tuple(scheduling.Demotion(job_key(job), cause) for job, cause in _DEMOTIONS() if job in jobs)


_CLAIMS = Prepared(
    lambda: Claim.objects.order_by("leaf_id").values_list(
        "id", "leaf_id", "claimant_id", "task__role__name", "task__index", "virtual_cell"
    )
)
_DEMOTIONS = Prepared(lambda: Demotion.objects.order_by("job_id").values_list("job_id", "cause"))


def _kept_for(cluster: ClusterRows) -> _Kept:
    """The last results for this very cluster; empty if it was another."""
    for last in _kept:
        if last.cluster is cluster.cluster and last.leaf_ids is cluster.leaf_ids:
            return last
    return _Kept(cluster.cluster, cluster.leaf_ids, {}, {}, {})


def _task(row: Placed, uses: Iterable[Use], node: str, leaf_ids: Mapping[int, str]) -> scheduling.RunningTask:
    """A task with its GPUs that have a cell: one that lost its slot in use is nobody's until it has one again."""
    leaves = tuple(
        scheduling.LeafUse(leaf_ids[use.gpu], use.virtual_cell or None, scheduling.Standing(use.standing))
        for use in uses
        if use.gpu in leaf_ids
    )
    task = scheduling.TaskRef(row.role, row.number)
    return scheduling.RunningTask(
        placement=scheduling.TaskPlacement(task, node, leaves, row.cpu_milli, row.memory_mb),
        started_ms=ms_of(row.started_at or row.created_at),
        checkpoint_ms=ms_of(row.checkpoint_at) if row.checkpoint_at else None,
        leaving=row.phase in LEAVING,
        right_ms=max((ms_of(use.since) for use in uses), default=None),
    )


def _running(job: scheduling.Job, tasks: list[scheduling.RunningTask], key: int, last: _Kept) -> scheduling.Running:
    """The running job; the last object if job and tasks are equal."""
    before = last.running.get(key)
    if before is not None and before.job is job and last.by_job[key] == tasks:
        return before
    return scheduling.Running(job, tuple(sorted(tasks, key=lambda task: task.placement.task)))

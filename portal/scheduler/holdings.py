"""Held and claimed leaf cells: rows -> the engine's running tasks, claims and demotions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

import scheduling
from nodes.protocol.states import ContainerState, Phase
from portal.common.prepared import Prepared
from portal.common.row_versions import KeptRows
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
    parked_s: int  # of its job's attempt

    @property
    def given_up(self) -> bool:
        """Whether it is lost with its node, or ended with processes left: it still holds its resources, but nobody
        counts on them."""
        return self.lost_at is not None or self.state == ContainerState.TERMINATED


def _text(column: str) -> Cast:
    return Cast(column, TextField())


class _Uses(NamedTuple):
    """Live allocations, and the same by task attempt in the order of the GPUs' ids."""

    rows: Mapping[int, Use]
    by_attempt: dict[str, tuple[Use, ...]]


Held = list[tuple[Placed, tuple[Use, ...]]]
"""A job's placed tasks."""


class _Made(NamedTuple):
    """A running job as made by the last reading, and the rows that it was made of."""

    held: Held
    running: scheduling.Running


class _Kept(NamedTuple):
    """Running jobs of the last reading by row id, and the cells that they were named by."""

    cluster: scheduling.Cluster | None
    leaf_ids: Mapping[int, str]
    jobs: dict[int, _Made]


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims for the engine, each one's row by leaf, and rows that can no longer come true."""

    live: tuple[scheduling.Claim, ...]
    rows: dict[str, int]
    stale: tuple[int, ...]


class Holdings:
    """What tasks hold, as read at one moment."""

    def __init__(self, attempts: Mapping[str, Placed], held: Mapping[str, tuple[Use, ...]]) -> None:
        self._gone = [row for row in attempts.values() if row.given_up]
        self._placed = [row for row in attempts.values() if not row.given_up] if self._gone else [*attempts.values()]
        self._held = held

    def given_up(self) -> GivenUp:
        """Resources of tasks that were given up."""
        amounts: dict[int, tuple[int, int]] = {}
        for row in self._gone:
            cpu_milli, memory_mb = amounts.get(row.node, (0, 0))
            amounts[row.node] = (cpu_milli + row.cpu_milli, memory_mb + row.memory_mb)
        return GivenUp(frozenset(use.gpu for row in self._gone for use in self._held.get(row.id, ())), amounts)

    def by_job(self) -> dict[int, Held]:
        """Placed tasks by job (row id)."""
        found: dict[int, Held] = defaultdict(list)
        for row in self._placed:
            found[row.job].append((row, self._held.get(row.id, ())))
        return found

    def attempts(self) -> dict[tuple[str, str, int], str]:
        """Attempts of placed tasks, by job (engine id), role and index."""
        return {(job_key(row.job), row.role, row.number): row.id for row in self._placed}

    def claims(self, jobs: JobRows, cluster: ClusterRows) -> Claims:
        """Claims of live jobs; none of a job that can no longer have one of its leaves."""
        rows = _CLAIMS()
        if not rows:
            return Claims((), {}, ())
        holders = {use.gpu: row.job for row in self._placed for use in self._held.get(row.id, ())}
        gone = {
            claimant
            for _, gpu, claimant, _, _, _, parked in rows
            if claimant not in (jobs.parked if parked else jobs.jobs)
            or cluster.gpus.get(cluster.leaf_ids.get(gpu, "")) != gpu
        }
        live, keys = [], {}
        for key, gpu, claimant, role, index, cell, parked in rows:
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
                        parked=parked,
                    )
                )
        return Claims(tuple(live), keys, tuple(key for key, _, claimant, *_ in rows if claimant in gone))


def demotions_read(jobs: Mapping[int, scheduling.Job]) -> tuple[scheduling.Demotion, ...]:
    """Demotions of live jobs."""
    return tuple(scheduling.Demotion(job_key(job), cause) for job, cause in _DEMOTIONS() if job in jobs)


_CLAIMS = Prepared(
    lambda: Claim.objects.order_by("leaf_id").values_list(
        "id", "leaf_id", "claimant_id", "task__role__name", "task__index", "virtual_cell", "parked"
    )
)
_DEMOTIONS = Prepared(lambda: Demotion.objects.order_by("job_id").values_list("job_id", "cause"))


class HoldingsReader:
    """Reads them; processes only what has changed since its last reading."""

    def __init__(self) -> None:
        self._attempts = KeptRows(
            lambda: TaskAttempt.objects.filter(released_at__isnull=True, parked_at__isnull=True),
            [
                _text("id"), "task__role__name", "task__index", "job_attempt__job", "node", "cpu_milli", "memory_mb",
                "state", "phase", *map(_text, ("lost_at", "started_at", "created_at", "checkpoint_at")),
                "job_attempt__parked_s",
            ],
            key=str,
            make=Placed._make,
        )  # fmt: skip
        self._allocations = KeptRows(
            lambda: Allocation.objects.filter(released_at__isnull=True),
            ["id", _text("task_attempt"), "leaf", "virtual_cell", "standing", _text("since")],
            key=int,
            make=Use._make,
        )
        self._uses, self._kept = _Uses({}, {}), _Kept(None, {}, {})

    def read(self) -> Holdings:
        """Everything at once, before the cluster: what was given up is part of the cluster's health."""
        attempts, allocations, uses = self._attempts.read(), self._allocations.read(), self._uses
        if allocations is not uses.rows:
            uses = self._uses = _Uses(allocations, _by_attempt(uses, allocations))
        return Holdings(attempts, uses.by_attempt)

    def running(self, holdings: Holdings, jobs: JobRows, cluster: ClusterRows) -> tuple[scheduling.Running, ...]:
        """Running jobs with their placed tasks; the last reading's objects if unchanged. A job that has ended since the
        tasks were read, if the caller's transaction sees that, is left out."""
        last, names = self._kept, {node.pk: name for name, node in cluster.nodes.items()}
        same = last.cluster is cluster.cluster and last.leaf_ids is cluster.leaf_ids
        made = {
            key: _made(jobs.jobs[key], held, names, cluster.leaf_ids, last.jobs.get(key) if same else None)
            for key, held in holdings.by_job().items()
            if key in jobs.jobs
        }
        self._kept = _Kept(cluster.cluster, cluster.leaf_ids, made)
        return tuple(made[job].running for job in sorted(made, key=job_key))


def _by_attempt(last: _Uses, rows: Mapping[int, Use]) -> dict[str, tuple[Use, ...]]:
    new = [use for key, use in rows.items() if last.rows.get(key) is not use]
    gone = [last.rows[key] for key in last.rows.keys() - rows.keys()]
    came: dict[str, list[Use]] = {use.task_attempt: [] for use in (*new, *gone)}
    for use in new:
        came[use.task_attempt].append(use)
    left, held = {use.id for use in (*new, *gone)}, dict(last.by_attempt)
    for attempt, uses in came.items():
        uses += (use for use in held.pop(attempt, ()) if use.id not in left)
        if uses:
            held[attempt] = tuple(sorted(uses, key=attrgetter("gpu")))
    return held


def _made(
    job: scheduling.Job, held: Held, nodes: Mapping[int, str], leaf_ids: Mapping[int, str], last: _Made | None
) -> _Made:
    """The running job; the last reading's object if it is equal."""
    if last is not None and last.running.job is job and last.held == held:
        return last
    tasks = (_task(row, uses, nodes[row.node], leaf_ids) for row, uses in held)
    running = scheduling.Running(job, tuple(sorted(tasks, key=lambda task: task.placement.task)))
    if last is not None and last.running.job is job and last.running.tasks == running.tasks:
        running = last.running
    return _Made(held, running)


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
        # As if it had never been parked: limits and losses count from here what it ran.
        started_ms=ms_of(row.started_at or row.created_at) + row.parked_s * 1000,
        checkpoint_ms=ms_of(row.checkpoint_at) if row.checkpoint_at else None,
        leaving=row.phase in LEAVING,
        right_ms=max((ms_of(use.since) for use in uses), default=None),
    )

"""Who holds and who claims which leaf cells: rows -> the engine's running tasks, claims and demotions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

import scheduling
from nodes.protocol import ContainerState, Phase
from portal.clusters.selectors import ClusterRows, GivenUp
from portal.dispatch.dependencies import job_key
from portal.dispatch.jobs import JobRows
from portal.jobs.models import Allocation, Claim, Demotion, TaskAttempt

LEAVING = {Phase.STOP, Phase.REMOVE}

Use = tuple[str, int, str, str, str]
"""A live allocation: task attempt, GPU, virtual cell, standing, and since when."""


class Placed(NamedTuple):
    """A task attempt that holds its place, as its row has it. Its id and times are texts: each second all rows are
    compared with those of the last reading, and only those of few are looked into."""

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
        """Lost with its node, or unkillable: it still holds what it holds, and nobody counts with it any more."""
        return self.lost_at is not None or self.state == ContainerState.TERMINATED


class _Task(NamedTuple):
    """An engine's task and what it was made from."""

    row: Placed
    uses: list[Use]
    task: scheduling.RunningTask


class _Kept(NamedTuple):
    """What the last reading made, and for which cluster."""

    cluster: scheduling.Cluster
    leaf_ids: Mapping[int, str]
    tasks: dict[str, _Task]
    running: dict[int, scheduling.Running]


_kept: list[_Kept] = []


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims for the engine, the row of each by its leaf, and rows that can not come true any more."""

    live: tuple[scheduling.Claim, ...]
    rows: dict[str, int]
    stale: tuple[int, ...]


class Holdings:
    """Reads everything at once, before the cluster is read: what was given up is part of the cluster's health."""

    def __init__(self) -> None:
        columns: list[str | Cast] = [
            _text("id"), "task__role__name", "task__index", "job_attempt__job", "node", "cpu_milli", "memory_mb",
            "state", "phase", *map(_text, ("lost_at", "started_at", "created_at", "checkpoint_at")),
        ]  # fmt: skip
        rows = TaskAttempt.objects.filter(released_at__isnull=True).order_by().values_list(*columns)
        self._rows = [Placed(*row) for row in rows]
        self._held: dict[str, list[Use]] = defaultdict(list)
        live = Allocation.objects.filter(released_at__isnull=True).order_by()
        for use in live.values_list(_text("task_attempt"), "leaf", "virtual_cell", "standing", _text("since")):
            self._held[use[0]].append(use)

    def given_up(self) -> GivenUp:
        """GPUs, CPU and memory of tasks that were given up."""
        amounts: dict[int, tuple[int, int]] = {}
        gone = [row for row in self._rows if row.given_up]
        for row in gone:
            cpu_milli, memory_mb = amounts.get(row.node, (0, 0))
            amounts[row.node] = (cpu_milli + row.cpu_milli, memory_mb + row.memory_mb)
        return GivenUp(frozenset(gpu for row in gone for _, gpu, *_ in self._held[row.id]), amounts)

    @cached_property
    def _placed(self) -> list[Placed]:
        return [row for row in self._rows if not row.given_up]

    def running(self, jobs: JobRows, cluster: ClusterRows) -> tuple[scheduling.Running, ...]:
        """Every job with its placed tasks; those of the last reading where nothing of them has changed."""
        last = _kept_for(cluster)
        tasks = self._tasks(cluster, last.tasks)
        by_job: dict[int, list[scheduling.RunningTask]] = defaultdict(list)
        for row in self._placed:
            by_job[row.job].append(tasks[row.id].task)
        running = {job: _running(jobs.jobs[job], every, last.running.get(job)) for job, every in by_job.items()}
        _kept[:] = [_Kept(cluster.cluster, cluster.leaf_ids, tasks, running)]
        return tuple(running[job] for job in sorted(running, key=job_key))

    def _tasks(self, cluster: ClusterRows, before: Mapping[str, _Task]) -> dict[str, _Task]:
        tasks, names = {}, {node.pk: name for name, node in cluster.nodes.items()}
        for row in self._placed:
            uses, last = self._held[row.id], before.get(row.id)
            same = last is not None and last.row == row and last.uses == uses
            if last and same:
                tasks[row.id] = last
            else:
                tasks[row.id] = _Task(row, uses, _task(row, uses, names[row.node], cluster.leaf_ids))
        return tasks

    def attempts(self) -> dict[tuple[str, str, int], str]:
        """The runs of placed tasks, by job (engine id), role and index."""
        return {(job_key(row.job), row.role, row.number): row.id for row in self._placed}

    def claims(self, jobs: JobRows, cluster: ClusterRows) -> Claims:
        """The claims of live jobs; of a job that can not have one of its leaves any more none."""
        columns = ("id", "leaf_id", "claimant_id", "task__role__name", "task__index", "virtual_cell")
        rows = list(Claim.objects.order_by("leaf_id").values_list(*columns))
        if not rows:
            return Claims((), {}, ())
        holders = {gpu: row.job for row in self._placed for _, gpu, *_ in self._held[row.id]}
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
    """The demotions of live jobs."""
    rows = Demotion.objects.order_by("job_id").values_list("job_id", "cause")
    return tuple(scheduling.Demotion(job_key(job), cause) for job, cause in rows if job in jobs)


def _kept_for(cluster: ClusterRows) -> _Kept:
    """What was made for this very cluster; nothing where that was another one."""
    for last in _kept:
        if last.cluster is cluster.cluster and last.leaf_ids is cluster.leaf_ids:
            return last
    return _Kept(cluster.cluster, cluster.leaf_ids, {}, {})


def _task(row: Placed, uses: Iterable[Use], node: str, leaf_ids: Mapping[int, str]) -> scheduling.RunningTask:
    held = sorted(uses, key=lambda use: use[1])
    leaves = tuple(
        scheduling.LeafUse(leaf_ids[gpu], cell or None, scheduling.Standing(standing))
        for _, gpu, cell, standing, _ in held
    )
    task = scheduling.TaskRef(row.role, row.number)
    return scheduling.RunningTask(
        placement=scheduling.TaskPlacement(task, node, leaves, row.cpu_milli, row.memory_mb),
        started_ms=_ms(row.started_at or row.created_at),
        checkpoint_ms=_ms(row.checkpoint_at) if row.checkpoint_at else None,
        leaving=row.phase in LEAVING,
        right_ms=max((_ms(since) for *_, since in held), default=None),
    )


def _running(
    job: scheduling.Job, tasks: Iterable[scheduling.RunningTask], last: scheduling.Running | None
) -> scheduling.Running:
    """The last reading's where it is the same job with the same tasks."""
    ordered = tuple(sorted(tasks, key=lambda task: task.placement.task))
    same = last is not None and last.job is job and last.tasks == ordered
    return last if last and same else scheduling.Running(job, ordered)


def _text(column: str) -> Cast:
    return Cast(column, TextField())


def _ms(moment: str) -> int:
    """Since 1970, of a time as the database writes it: without a zone (SQLite) it is UTC."""
    at = datetime.fromisoformat(moment)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)

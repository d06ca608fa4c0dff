"""Who holds and who claims which leaf cells: rows -> the engine's running tasks, claims and demotions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import scheduling
from nodes.protocol import ContainerState, Phase
from portal.clusters.selectors import ClusterRows, GivenUp
from portal.dispatch.dependencies import job_key
from portal.dispatch.jobs import JobRows
from portal.jobs.models import Allocation, Claim, Demotion, TaskAttempt

LEAVING = {Phase.STOP, Phase.REMOVE}


class Placed(NamedTuple):
    """A task attempt that holds its place, as its row has it."""

    id: UUID
    role: str
    number: int  # the task's index in its role
    job: int
    node: int
    cpu_milli: int
    memory_mb: int
    state: str
    phase: str
    lost_at: datetime | None
    started_at: datetime | None
    created_at: datetime
    checkpoint_at: datetime | None

    @property
    def given_up(self) -> bool:
        """Lost with its node, or unkillable: it still holds what it holds, and nobody counts with it any more."""
        return self.lost_at is not None or self.state == ContainerState.TERMINATED


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims for the engine, the row of each by its leaf, and rows that can not come true any more."""

    live: tuple[scheduling.Claim, ...]
    rows: dict[str, int]
    stale: tuple[int, ...]


class Holdings:
    """Reads everything at once, before the cluster is read: what was given up is part of the cluster's health."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        columns = ["id", "task__role__name", "task__index", "job_attempt__job", *Placed._fields[4:]]
        rows = TaskAttempt.objects.filter(released_at__isnull=True).order_by().values_list(*columns)
        self._rows = [Placed(*row) for row in rows]
        self._held: dict[UUID, list[tuple[int, str, str]]] = defaultdict(list)
        self._since: dict[UUID, datetime] = {}
        live = Allocation.objects.filter(released_at__isnull=True).order_by()
        named = ("task_attempt", "leaf", "virtual_cell", "standing", "since")
        for attempt, gpu, cell, standing, since in live.values_list(*named):
            self._held[attempt].append((gpu, cell, standing))
            self._since[attempt] = max(since, self._since.get(attempt, since))

    def given_up(self) -> GivenUp:
        """GPUs, CPU and memory of tasks that were given up."""
        amounts: dict[int, tuple[int, int]] = {}
        gone = [row for row in self._rows if row.given_up]
        for row in gone:
            cpu_milli, memory_mb = amounts.get(row.node, (0, 0))
            amounts[row.node] = (cpu_milli + row.cpu_milli, memory_mb + row.memory_mb)
        return GivenUp(frozenset(gpu for row in gone for gpu, _, _ in self._held[row.id]), amounts)

    @cached_property
    def _placed(self) -> list[Placed]:
        return [row for row in self._rows if not row.given_up]

    def running(self, jobs: JobRows, cluster: ClusterRows) -> tuple[scheduling.Running, ...]:
        """Every job with its placed tasks."""
        node_names = {node.pk: name for name, node in cluster.nodes.items()}
        by_job: dict[int, list[scheduling.RunningTask]] = defaultdict(list)
        for row in self._placed:
            uses = tuple(
                scheduling.LeafUse(cluster.leaf_ids[gpu], cell or None, scheduling.Standing(standing))
                for gpu, cell, standing in sorted(self._held[row.id])
            )
            place = scheduling.TaskPlacement(
                scheduling.TaskRef(row.role, row.number), node_names[row.node], uses, row.cpu_milli, row.memory_mb
            )
            by_job[row.job].append(self._task(row, place))
        return tuple(
            scheduling.Running(jobs.jobs[job], tuple(sorted(by_job[job], key=lambda task: task.placement.task)))
            for job in sorted(by_job, key=job_key)
        )

    def _task(self, row: Placed, place: scheduling.TaskPlacement) -> scheduling.RunningTask:
        saved = row.checkpoint_at
        return scheduling.RunningTask(
            placement=place,
            started_ms=_ms(row.started_at or row.created_at),
            checkpoint_ms=_ms(min(saved, self._now)) if saved else None,
            leaving=row.phase in LEAVING,
            right_ms=_ms(self._since[row.id]) if row.id in self._since else None,
        )

    def attempts(self) -> dict[tuple[str, str, int], UUID]:
        """The runs of placed tasks, by job (engine id), role and index."""
        return {(job_key(row.job), row.role, row.number): row.id for row in self._placed}

    def claims(self, jobs: JobRows, cluster: ClusterRows) -> Claims:
        """The claims of live jobs; of a job that can not have one of its leaves any more none."""
        holders = {gpu: row.job for row in self._placed for gpu, _, _ in self._held[row.id]}
        columns = ("id", "leaf_id", "claimant_id", "task__role__name", "task__index", "virtual_cell")
        rows = list(Claim.objects.order_by("leaf_id").values_list(*columns))
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


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

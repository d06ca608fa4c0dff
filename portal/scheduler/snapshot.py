"""Rows to the engine's snapshot: one consistent read, a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from django.db import connection, transaction

import scheduling
from portal.jobs.selectors.usage import PastUse, UsageReader
from portal.queue.services.waits import Told
from portal.scheduler.dependencies import HeldBack
from portal.scheduler.holdings import Claims, HoldingsReader, demotions_read
from portal.scheduler.ports import Short
from portal.scheduler.reservations import Reserved, reservations_read
from portal.scheduler.resting import leaves_freed, loans_lost
from portal.scheduler.snapshot_jobs import JobReader, JobRows
from portal.storages.selectors.ties import StorageTies
from portal.teams.selectors.engine_cluster import ClusterReader, ClusterRows

HOUR_MS = 3_600_000
NO_SHORTAGE: Mapping[int, Short] = {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The snapshot, and the rows its ids stand for."""

    snapshot: scheduling.Snapshot
    jobs: dict[str, int]  # engine id -> row id
    attempts: dict[tuple[str, str, int], str]  # (engine job id, role, index) of a placed task -> its attempt's id
    nodes: dict[str, int]  # node name -> row id
    versions: dict[str, int]  # node name -> placement_version as read
    leaves: dict[str, int]  # leaf id -> GPU row id
    claims: Claims
    reserved: Reserved
    told: dict[int, Told] = field(default_factory=dict)  # row id -> the stored reason for waiting
    held_back: dict[int, HeldBack] = field(default_factory=dict)  # row id -> why it is kept out of the queue
    waits_for: dict[int, str] = field(default_factory=dict)  # row id -> its unfinished dependencies, in words
    parked: frozenset[int] = frozenset()  # row ids of jobs that are off their GPUs
    ties: StorageTies = StorageTies()


class SnapshotReader:
    """Reads snapshots, and keeps what its last reading found and made, so that only changes are read and made anew:
    each is what the rows say now, whatever was kept."""

    def __init__(self) -> None:
        self._cluster, self._jobs = ClusterReader(), JobReader()
        self._holdings, self._usage = HoldingsReader(), UsageReader()

    def load(self, *, now: datetime, ports: Mapping[int, Short] = NO_SHORTAGE) -> Loaded:
        """Everything the engine needs, read in one consistent transaction. ``ports``: jobs that found too few."""
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return self.read(now=now, ports=ports)

    def read(self, *, now: datetime, ports: Mapping[int, Short] = NO_SHORTAGE) -> Loaded:
        """The same inside the caller's transaction."""
        holdings = self._holdings.read()
        cluster = self._cluster.read(holdings.given_up())
        jobs = self._jobs.read(now=now, cluster=cluster, ports=ports)
        claims = holdings.claims(jobs, cluster)
        reserved = reservations_read(jobs.jobs)
        waiting = _waiting(jobs, claims, loans_lost(now=now))
        half_life = timedelta(milliseconds=cluster.cluster.policy.half_life_ms)
        snapshot = scheduling.Snapshot(
            cluster=cluster.cluster,
            running=self._holdings.running(holdings, jobs, cluster),
            waiting=waiting,
            claims=claims.live,
            demotions=demotions_read(jobs.jobs),
            usage=_usage(cluster, self._usage.folded(now=now, half_life=half_life)),
            reservations=reserved.jobs,
            freed=leaves_freed(now=now, leaf_ids=cluster.leaf_ids) if any(one.loans_lost for one in waiting) else (),
        )
        return Loaded(
            snapshot=snapshot,
            jobs=jobs.ids,
            attempts=holdings.attempts(),
            nodes={name: node.pk for name, node in cluster.nodes.items()},
            versions={name: node.placement_version for name, node in cluster.nodes.items()},
            leaves=cluster.gpus,
            claims=claims,
            reserved=reserved,
            told=jobs.told,
            held_back=jobs.held_back,
            waits_for=jobs.waits_for,
            parked=jobs.parked,
            ties=jobs.ties,
        )


SNAPSHOTS = SnapshotReader()
"""By which everything in this process but the scheduler reads snapshots: estimates, dry runs, checks."""


def _waiting(jobs: JobRows, claims: Claims, lost: Mapping[str, int]) -> tuple[scheduling.Job, ...]:
    """Waiting jobs, and pausing ones with cells claimed; with how often they lost loans."""
    claimants = {claim.claimant for claim in claims.live}
    pausing = [job for job in jobs.pausing if job.id in claimants]
    every = tuple(sorted((*jobs.waiting, *pausing), key=attrgetter("id"))) if pausing else jobs.waiting
    if not lost:
        return every
    return tuple(job._replace(loans_lost=lost[job.id]) if job.id in lost else job for job in every)


def _usage(cluster: ClusterRows, past: Iterable[PastUse]) -> tuple[scheduling.Usage, ...]:
    return tuple(
        scheduling.Usage(cluster.vc_names[one.vc_id], one.user, one.resource, one.hour * HOUR_MS, one.amount)
        for one in past
        if one.vc_id in cluster.vc_names  # else it was removed
    )

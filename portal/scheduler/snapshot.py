"""Rows to the engine's snapshot: one consistent read, a fixed number of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from django.db import connection, transaction

import scheduling
from portal.jobs.selectors.usage import usage_folded
from portal.queue.services.waits import Told
from portal.scheduler.dependencies import HeldBack
from portal.scheduler.holdings import Claims, Holdings, demotions_read
from portal.scheduler.reservations import Reserved, reservations_read
from portal.scheduler.resting import leaves_freed, loans_lost
from portal.scheduler.snapshot_jobs import JobRows, jobs_read
from portal.storages.selectors.ties import StorageTies
from portal.teams.selectors.engine_cluster import ClusterRows, cluster_read

HOUR_MS = 3_600_000


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
    ties: StorageTies = StorageTies()


def load(*, now: datetime) -> Loaded:
    """Read everything the engine needs in one consistent transaction."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return read(now=now)


def read(*, now: datetime) -> Loaded:
    """The same inside the caller's transaction."""
    holdings = Holdings()
    cluster = cluster_read(given_up=holdings.given_up())
    jobs = jobs_read(now=now, cluster=cluster)
    claims = holdings.claims(jobs, cluster)
    reserved = reservations_read(jobs.jobs)
    waiting = _waiting(jobs, claims, loans_lost(now=now))
    snapshot = scheduling.Snapshot(
        cluster=cluster.cluster,
        running=holdings.running(jobs, cluster),
        waiting=waiting,
        claims=claims.live,
        demotions=demotions_read(jobs.jobs),
        usage=_usage(cluster, now),
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
        ties=jobs.ties,
    )


def _waiting(jobs: JobRows, claims: Claims, lost: Mapping[str, int]) -> tuple[scheduling.Job, ...]:
    """Waiting jobs, and pausing ones with cells claimed; with how often they lost loans."""
    claimants = {claim.claimant for claim in claims.live}
    pausing = [job for job in jobs.pausing if job.id in claimants]
    every = tuple(sorted((*jobs.waiting, *pausing), key=attrgetter("id"))) if pausing else jobs.waiting
    if not lost:
        return every
    return tuple(job._replace(loans_lost=lost[job.id]) if job.id in lost else job for job in every)


def _usage(cluster: ClusterRows, now: datetime) -> tuple[scheduling.Usage, ...]:
    half_life = timedelta(milliseconds=cluster.cluster.policy.half_life_ms)
    return tuple(
        scheduling.Usage(cluster.vc_names[one.vc_id], one.user, one.resource, one.hour * HOUR_MS, one.amount)
        for one in usage_folded(now=now, half_life=half_life)
        if one.vc_id in cluster.vc_names  # else it was removed
    )

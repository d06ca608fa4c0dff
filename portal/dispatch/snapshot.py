"""Rows -> the engine's snapshot: one consistent read, a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction

import scheduling
from nodes.protocol import ContainerState
from portal.clusters.models import Gpu, Node, QuotaLine, VirtualCluster
from portal.clusters.states import NodeHealth
from portal.dispatch.dependencies import HeldBack, dependencies, job_key
from portal.jobs.models import Allocation, Claim, Demotion, Job, Task, TaskAttempt, TaskRole
from portal.jobs.states import JOB_LIVE, JobState, TaskState


@dataclass(frozen=True, slots=True)
class Loaded:
    """The snapshot, and what its ids are called in the database."""

    snapshot: scheduling.Snapshot
    jobs: dict[str, int]  # engine id -> row id
    tasks: dict[tuple[str, str, int], int]  # (engine job id, role, index) -> row id
    nodes: dict[str, int]  # node name -> row id
    versions: dict[str, int]  # node name -> placement_version as read
    leaves: dict[str, int]  # leaf id -> GPU row id
    held_back: dict[int, HeldBack] = field(default_factory=dict)  # row id -> why it is not in the order
    waits_for: dict[int, str] = field(default_factory=dict)  # row id -> its unfinished dependencies, in words


def load(*, now: datetime) -> Loaded:
    """Read everything the engine decides from, at one moment of the database."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _Reader(now).read()


class _Reader:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def read(self) -> Loaded:
        self.nodes = list(Node.objects.select_related("sku").order_by("name"))
        self.node_names = {node.pk: node.name for node in self.nodes}
        self.gpus = list(Gpu.objects.select_related("cell_type").order_by("node_id", "-present", "index", "id"))
        self.leaf_ids: dict[int, str] = {}
        rows = list(
            TaskAttempt.objects.filter(released_at__isnull=True).values_list(
                "id", "task_id", "node_id", "cpu_milli", "memory_mb", "state", "lost_at", "started_at", "created_at"
            )
        )
        allocations: dict[Any, list[tuple[int, str, str]]] = defaultdict(list)
        for attempt_id, leaf, cell, standing in Allocation.objects.filter(released_at__isnull=True).values_list(
            "task_attempt_id", "leaf_id", "virtual_cell", "standing"
        ):
            allocations[attempt_id].append((leaf, cell, standing))
        given_up = [row for row in rows if row[6] is not None or row[5] == ContainerState.TERMINATED]
        placed = [row for row in rows if row[6] is None and row[5] != ContainerState.TERMINATED]
        cluster = self._cluster(given_up, allocations)
        return self._loaded(cluster, placed, allocations)

    # The hardware. Tasks that were given up (lost with their node, unkillable) still hold what they hold: their
    # leaves are out of service and their CPU and memory are taken off the node.

    def _cluster(self, given_up: list[Any], allocations: dict[Any, list[tuple[int, str, str]]]) -> scheduling.Cluster:
        fenced = {leaf for row in given_up for leaf, _, _ in allocations[row[0]]}
        gone: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for row in given_up:
            gone[row[2]][0] += row[3]
            gone[row[2]][1] += row[4]
        leaves: dict[int, list[scheduling.Leaf]] = defaultdict(list)
        taken: set[tuple[int, int]] = set()
        for gpu in self.gpus:
            place = (gpu.node_id, gpu.index)
            if place in taken:
                continue  # another GPU sits in the slot of one that is gone
            taken.add(place)
            leaf_id = f"{self.node_names[gpu.node_id]}/{gpu.index}"
            self.leaf_ids[gpu.pk] = leaf_id
            leaves[gpu.node_id].append(
                scheduling.Leaf(
                    id=leaf_id,
                    node=self.node_names[gpu.node_id],
                    index=gpu.index,
                    cell_type=gpu.cell_type.name,
                    healthy=gpu.usable and gpu.pk not in fenced,
                )
            )
        nodes = tuple(self._node(node, leaves[node.pk], gone[node.pk]) for node in self.nodes)
        return scheduling.Cluster(nodes, self._virtual_clusters(), quotas_may_exceed=True)

    def _node(self, node: Node, leaves: list[scheduling.Leaf], gone: list[int]) -> scheduling.Node:
        return scheduling.Node(
            id=node.name,
            cpu_milli=max(node.cpu_milli - gone[0], 0),
            memory_mb=max(node.memory_mb - gone[1], 0),
            leaves=tuple(sorted(leaves, key=lambda leaf: leaf.index)),
            state=_node_state(node),
            sku=node.sku.name if node.sku else "",
            reserve_cpu_milli=_reserve(node.cpu_milli, len(leaves)),
            reserve_memory_mb=_reserve(node.memory_mb, len(leaves)),
        )

    def _virtual_clusters(self) -> tuple[scheduling.VirtualCluster, ...]:
        quota: dict[int, list[scheduling.QuotaLine]] = defaultdict(list)
        for vc_id, cell_type, count in QuotaLine.objects.order_by("id").values_list(
            "vc_id", "cell_type__name", "count"
        ):
            quota[vc_id].append(scheduling.QuotaLine(cell_type, count))
        vcs = VirtualCluster.objects.order_by("name").values_list("id", "name")
        self.vc_names = dict(vcs)
        return tuple(scheduling.VirtualCluster(name, tuple(quota[vc_id])) for vc_id, name in vcs)

    # The jobs.

    def _loaded(
        self, cluster: scheduling.Cluster, placed: list[Any], allocations: dict[Any, list[tuple[int, str, str]]]
    ) -> Loaded:
        jobs = {job.pk: job for job in Job.objects.filter(state__in=JOB_LIVE).select_related("user")}
        self.roles: dict[int, list[scheduling.Role]] = defaultdict(list)
        role_names: dict[int, tuple[int, str]] = {}
        for role in TaskRole.objects.filter(job__in=list(jobs)).select_related("sku").order_by("job_id", "position"):
            role_names[role.pk] = (role.job_id, role.name)
            self.roles[role.job_id].append(_role(role))
        tasks: dict[tuple[str, str, int], int] = {}
        task_refs: dict[int, tuple[int, scheduling.TaskRef]] = {}
        wanted: dict[int, list[scheduling.TaskRef]] = defaultdict(list)
        rows = Task.objects.filter(job__in=list(jobs)).order_by("role__position", "index")
        for task_id, role_id, index, state in rows.values_list("id", "role_id", "index", "state"):
            job_id, name = role_names[role_id]
            ref = scheduling.TaskRef(name, index)
            task_refs[task_id] = (job_id, ref)
            tasks[(job_key(job_id), name, index)] = task_id
            if state == TaskState.WAITING:
                wanted[job_id].append(ref)
        needs = dependencies(jobs.values())
        held_back = needs.broken | {
            job.pk: _backoff(job) for job in jobs.values() if job.not_before and job.not_before > self.now
        }
        engine_jobs = {job_id: self._job(job, wanted[job_id], needs.after[job_id]) for job_id, job in jobs.items()}
        waiting = [
            engine_jobs[job.pk]
            for job in jobs.values()
            if engine_jobs[job.pk].wanted and job.pk not in held_back and _may_start(job)
        ]
        snapshot = scheduling.Snapshot(
            cluster=cluster,
            running=self._running(engine_jobs, placed, allocations, task_refs),
            waiting=tuple(sorted(waiting, key=lambda job: job.id)),
            claims=tuple(
                scheduling.Claim(self.leaf_ids[leaf], job_key(claimant), job_key(victim) if victim else None)
                for leaf, claimant, victim in Claim.objects.order_by("leaf_id").values_list(
                    "leaf_id", "claimant_id", "victim_id"
                )
            ),
            demotions=tuple(
                scheduling.Demotion(job_key(job_id), cause)
                for job_id, cause in Demotion.objects.order_by("job_id").values_list("job_id", "cause")
            ),
        )
        return Loaded(
            snapshot=snapshot,
            jobs={job_key(job_id): job_id for job_id in jobs},
            tasks=tasks,
            nodes={node.name: node.pk for node in self.nodes},
            versions={node.name: node.placement_version for node in self.nodes},
            leaves={leaf_id: gpu_id for gpu_id, leaf_id in self.leaf_ids.items()},
            held_back=held_back,
            waits_for=needs.words,
        )

    def _running(
        self,
        jobs: dict[int, scheduling.Job],
        placed: list[Any],
        allocations: dict[Any, list[tuple[int, str, str]]],
        task_refs: dict[int, tuple[int, scheduling.TaskRef]],
    ) -> tuple[scheduling.Running, ...]:
        by_job: dict[int, list[scheduling.RunningTask]] = defaultdict(list)
        for attempt_id, task_id, node_id, cpu_milli, memory_mb, _, _, started_at, created_at in placed:
            job_id, ref = task_refs[task_id]
            uses = tuple(
                scheduling.LeafUse(self.leaf_ids[leaf], cell or None, scheduling.Standing(standing))
                for leaf, cell, standing in sorted(allocations[attempt_id])
            )
            placement = scheduling.TaskPlacement(
                ref.role, ref.index, self.node_names[node_id], uses, cpu_milli, memory_mb
            )
            by_job[job_id].append(scheduling.RunningTask(placement, _ms(started_at or created_at)))
        return tuple(
            scheduling.Running(jobs[job_id], tuple(sorted(by_job[job_id], key=lambda task: task.placement.task)))
            for job_id in sorted(by_job, key=job_key)
        )

    def _job(self, job: Job, wanted: list[scheduling.TaskRef], after: tuple[str, ...]) -> scheduling.Job:
        berth = job.spec["berth"]
        only = berth.get("nodes_only") or None
        never = frozenset(berth.get("nodes_not") or ())
        every = frozenset(self.node_names.values())
        allowed = (frozenset(only) if only else every) - never if only or never else None
        return scheduling.Job(
            id=job_key(job.pk),
            vc=self.vc_names[job.vc_id],
            user=job.user.username,
            priority=job.priority,
            roles=tuple(self.roles[job.pk]),
            submitted_ms=_ms(job.submitted_at),
            order_id=job.pk,
            wanted=tuple(wanted),
            gang=job.gang,
            time_limit_ms=(berth.get("time_limit_s") or 0) * 1000 or None,
            min_run_ms=(berth.get("min_run_time_s") or 0) * 1000,
            grace_ms=(berth.get("grace_period_s") or 0) * 1000,
            lazy_preemption=bool(job.spec.get("lazy_preemption")),
            preemptible=berth.get("preemptible") is not False,
            borrow=scheduling.Borrow(berth.get("borrow") or "never"),
            avoid_nodes=frozenset(job.avoid_nodes),
            only_nodes=allowed,
            after=after,
        )


def _role(role: TaskRole) -> scheduling.Role:
    return scheduling.Role(
        name=role.name,
        count=role.instances,
        gpus=role.gpus,
        cpu_milli=role.cpu_milli,
        memory_mb=role.memory_mb,
        sku=role.sku.name if role.sku else None,
        pinned_cell=role.pinned_cell or None,
        affinity_group=role.affinity_group or None,
    )


def _reserve(amount: int, gpus: int) -> int | None:
    """What stays free per idle GPU: a part of the node's share of it."""
    return amount * settings.GPU_RESERVE_PERCENT // (100 * gpus) if gpus else None


def _node_state(node: Node) -> scheduling.NodeState:
    if node.health != NodeHealth.HEALTHY:
        return scheduling.NodeState.DOWN
    return scheduling.NodeState(node.intent)


def _may_start(job: Job) -> bool:
    # A gang is placed whole, from WAITING; any other job may place more tasks while some run.
    return job.state == JobState.WAITING or (not job.gang and job.state in {JobState.STARTING, JobState.RUNNING})


def _backoff(job: Job) -> HeldBack:
    return HeldBack("backoff", f"it is tried again at {job.not_before:%H:%M:%S} UTC")


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

"""Converts a spec that is not stored yet into the scheduler's job."""

from __future__ import annotations

from collections.abc import Iterable

import scheduling
from portal.job_file.model import JobSpec, TaskRoleSpec


def engine_job(spec: JobSpec, nodes: Iterable[str]) -> scheduling.Job:
    """The whole job, new and alone; ``nodes``: the names of all that exist. Unknown names are dropped."""
    roles = tuple(_role(role) for role in spec.roles)
    known = frozenset(nodes)
    only, without = known & frozenset(spec.berth.nodes_only), known & frozenset(spec.berth.nodes_not)
    return scheduling.Job(
        id="asked", vc=spec.vc, user="", priority=spec.priority, roles=roles, submitted_ms=0, order_id=0,
        wanted=tuple(scheduling.all_tasks(roles)), gang=spec.gang, lazy_preemption=spec.lazy_preemption,
        only_nodes=(only or known) - without if only or without else None,
    )  # fmt: skip


def _role(role: TaskRoleSpec) -> scheduling.Role:
    return scheduling.Role(
        name=role.name,
        count=role.instances,
        gpus=role.resources.gpu,
        cpu_milli=role.resources.cpu * 1000,
        memory_mb=role.resources.memory_mb,
        sku=role.sku,
        pinned_cell=role.pinned_cell,
        affinity_group=role.affinity_group,
        least=role.elastic.least if role.elastic else None,
    )

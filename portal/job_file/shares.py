"""Hints on tasks that want more CPU or memory than their GPUs' share: the excess is on loan (docs/scheduling.md)."""

from __future__ import annotations

from collections.abc import Iterator

from portal.job_file.facts import ClusterFacts
from portal.job_file.model import JobSpec, TaskRoleSpec
from portal.job_file.wordings import BEYOND_SHARE


def share_hints(spec: JobSpec, cluster: ClusterFacts) -> Iterator[str]:
    """A sentence for each role of a guaranteed job whose tasks exceed the share of their GPUs on every node of the SKU
    that they may have."""
    for role in spec.roles if spec.priority >= 0 else ():
        gpus, layout = role.resources.gpu, cluster.context.layout
        shares = [
            share
            for node, share in zip(layout.nodes, layout.shares, strict=True)
            if len(node.leaves) >= gpus and role.sku in (None, node.cell_type)
        ]
        if gpus and shares:
            cpu, memory = max(one for one, _ in shares) * gpus, max(one for _, one in shares) * gpus
            yield from _beyond(role, cpu, memory)


def _beyond(role: TaskRoleSpec, cpu_milli: int, memory_mb: int) -> Iterator[str]:
    wants = []
    if role.resources.cpu * 1000 > cpu_milli:
        wants.append((f"{role.resources.cpu} CPU", f"{cpu_milli / 1000:g} CPU"))
    if role.resources.memory_mb > memory_mb:
        wants.append((f"{role.resources.memory_mb} MB", f"{memory_mb} MB"))
    for wanted, share in wants:
        yield BEYOND_SHARE(role=role.name, wanted=wanted, share=share)

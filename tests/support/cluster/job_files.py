"""Small job files for the tests, made from one good file by changing single places."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from portal.job_file.facts import ClusterFacts
from portal.job_file.model import JobSpec
from portal.job_file.problems import Problem, SpecInvalid
from portal.job_file.validate import parse
from scheduling import CellType, Cluster, Leaf, Node, PinnedCell, QuotaLine, VirtualCluster
from scheduling.cycle.context import ClusterContext

ROOT = Path(__file__).resolve().parents[3]

GONE = object()
"""Stands for: take this key out."""

Change = tuple[str, Any]

_GOOD: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "good",
    "type": "job",
    "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "busybox:latest"}],
    "taskRoles": {
        "train": {
            "instances": 2,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 256, "gpu": 1},
            "commands": ["true"],
        }
    },
}


def job_file(*changes: Change) -> str:
    """The good file with each `("taskRoles/train/instances", 3)` applied, as text."""
    job = copy.deepcopy(_GOOD)
    for path, value in changes:
        _change(job, path.split("/"), value)
    return json.dumps(job)


def spec(*changes: Change) -> JobSpec:
    """The spec of the good file with changes."""
    return parse(job_file(*changes))


def problems(source: str | bytes, cluster: ClusterFacts | None = None) -> tuple[Problem, ...]:
    """What is wrong with the file; nothing when it is accepted."""
    try:
        parse(source, cluster)
    except SpecInvalid as refusal:
        return refusal.problems
    return ()


def two_teams() -> ClusterFacts:
    """Two A100 servers with 4 GPUs, one H100 server with 8, one without; vision owns 4 A100, speech 4 + 8. Another H100
    server is reserved for vision."""
    nodes = [server(f"a{number}", 4, "A100", cpu=32, memory_mb=256_000) for number in range(2)]
    nodes += [server("h0", 8, "H100", cpu=64, memory_mb=128_000), server("c0", 0, "", cpu=128, memory_mb=64_000)]
    reserved = replace(server("p0", 8, "H100", cpu=64, memory_mb=128_000), shape="H100-server", chain="reserved")
    return facts(
        [*nodes, reserved],
        {"vision": {"A100": 4}, "speech": {"A100": 4, "H100": 8}, "default": {}},
        cell_types=(CellType("H100-server", "H100", 8, node_level=True),),
        pinned={"vision": PinnedCell("rack-1", "H100-server", "p0")},
    )


def server(name: str, gpus: int, sku: str, *, cpu: int, memory_mb: int, cpu_tasks: bool | None = None) -> Node:
    leaves = tuple(Leaf(f"{name}:{index}", name, index, sku) for index in range(gpus))
    return Node(
        name, cpu * 1000, memory_mb, leaves, sku=sku, reserve_cpu_milli=0, reserve_memory_mb=0, cpu_tasks=cpu_tasks,
    )  # fmt: skip


def facts(
    nodes: list[Node],
    quotas: dict[str, dict[str, int]],
    *,
    cell_types: tuple[CellType, ...] = (),
    pinned: dict[str, PinnedCell] | None = None,
) -> ClusterFacts:
    """A cluster of these nodes, of which the virtual clusters own so many GPUs, and the cells that are reserved."""
    cells = pinned or {}
    vcs = tuple(
        VirtualCluster(
            name,
            tuple(QuotaLine(sku, count, sku) for sku, count in quota.items()),
            tuple(cell.id for cell in [cells.get(name)] if cell),
        )
        for name, quota in quotas.items()
    )
    cluster = Cluster(tuple(nodes), vcs, cell_types=cell_types, pinned_cells=tuple(cells.values()))
    return ClusterFacts(vcs=tuple(sorted(quotas)), context=ClusterContext(cluster))


def _change(at: Any, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    if value is GONE:
        del at[path[-1]]
    elif isinstance(at, list):
        at.append(value)
    else:
        at[path[-1]] = value

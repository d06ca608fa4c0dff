"""Small job files for the tests, made from one good file by changing single places."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from portal.jobs.spec import ClusterFacts, JobSpec, NodeShape, Problem, SpecInvalid, parse

ROOT = Path(__file__).resolve().parents[3]
OPENPAI = ROOT.parent / "shared" / "openpai"

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
    """Two A100 servers with 4 GPUs, one H100 server with 8, one without; vision owns 4 A100, speech 4 + 8."""
    return ClusterFacts(
        quotas={"vision": {"A100": 4}, "speech": {"A100": 4, "H100": 8}, "default": {}},
        nodes=(
            NodeShape("A100", gpus=4, cpu=32, memory_mb=256_000, count=2),
            NodeShape("H100", gpus=8, cpu=64, memory_mb=128_000),
            NodeShape(None, gpus=0, cpu=128, memory_mb=64_000),
        ),
    )


def _change(at: Any, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    if value is GONE:
        del at[path[-1]]
    elif isinstance(at, list):
        at.append(value)
    else:
        at[path[-1]] = value

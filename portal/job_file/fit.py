"""Whether the job can ever run on this cluster, however long it waits.

The scheduler decides (`refused`); the rules here find the number at fault and its place in the file.

GPUs count against the quota. CPU and memory are separate dimensions of a node, so a task may take any mix that one node
has (OpenPAI instead rounds every task up to whole SKUs: HiveD's `leafCellNumber`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import scheduling
from portal.common.priorities import PRIORITY_CLASSES, priority_name
from portal.job_file import raw
from portal.job_file.engine_job import engine_job
from portal.job_file.facts import ClusterFacts, NodeShape
from portal.job_file.model import DEFAULT_VIRTUAL_CLUSTER, JobSpec
from portal.job_file.problems import Path, Problem, path_text
from portal.job_file.raw import Raw
from portal.job_file.rules import Finding

_SKUS: Path = ("extras", "hivedScheduler", "taskRoles")
_CLASS: Path = ("extras", "hivedScheduler", "jobPriorityClass")


@dataclass(frozen=True, slots=True)
class _Ask:
    """One role's request; per task unless said otherwise. Of an elastic role without its extra tasks."""

    role: str
    tasks: int
    gpus: int
    cpu: int
    memory_mb: int
    sku: str | None
    pinned: bool

    @property
    def all_gpus(self) -> int:
        return self.tasks * self.gpus

    @property
    def path(self) -> Path:
        return ("taskRoles", self.role, "resourcePerInstance")


def findings(job: Raw, cluster: ClusterFacts) -> Iterator[Finding]:
    """Why the job could never start, however long it waited."""
    vc = raw.text(raw.mapping(job, "defaults").get("virtualCluster")) or DEFAULT_VIRTUAL_CLUSTER
    quota = cluster.quotas.get(vc)
    if quota is None:
        yield _unknown_vc(vc, cluster)
        return
    opportunistic = raw.priority_class(job) == "oppo"
    asks = [_ask(job, name, role) for name, role in raw.roles(job)]
    for ask in asks:
        wrong = _sku_finding(ask, vc, quota, cluster, opportunistic)
        if wrong is not None:
            yield wrong
        else:
            yield from _node_findings(ask, _allowed(ask, quota, cluster, opportunistic), raw.gang(job))
    if raw.gang(job) and not opportunistic:
        yield from _quota_findings(asks, vc, quota)


def refused(job: Raw, spec: JobSpec, cluster: ClusterFacts) -> Iterator[Finding]:
    """Why the scheduler would never start this job, whose file is valid in itself; empty if it would."""
    if spec.vc not in cluster.quotas:
        yield _unknown_vc(spec.vc, cluster)
        return
    told = _refusals(spec, cluster)
    if told:
        yield from list(findings(job, cluster)) or (_told(one, spec, cluster) for one in told)


def limit_problems(spec: JobSpec, cluster: ClusterFacts) -> Iterator[Problem]:
    """Limits of its virtual cluster's rules that the job exceeds by itself."""
    for refusal in _refusals(spec, cluster):
        if refusal.limit is not None:
            found = _told(refusal, spec, cluster)
            yield Problem(path_text(found.path), found.message, found.code)


def _refusals(spec: JobSpec, cluster: ClusterFacts) -> tuple[scheduling.Refusal, ...]:
    return cluster.refusals(engine_job(spec, (node.id for node in cluster.context.layout.nodes)))


def _told(refusal: scheduling.Refusal, spec: JobSpec, cluster: ClusterFacts) -> Finding:
    """The refusal in the scheduler's words, except where people use others."""
    limit = refusal.limit
    if limit is not None and limit.lowest is not None:
        lowest = next(name for name in PRIORITY_CLASSES if PRIORITY_CLASSES[name] == limit.lowest)
        message = (
            f"asks for {limit.needed} GPUs at once; jobs of class {priority_name(limit.lowest)} ({lowest}) and above "
            f"may hold {limit.most} in {spec.vc} together"
        )
        return Finding(_CLASS, message, "class_cap")
    if limit is not None:
        kind, part = limit.kind or "GPUs", "" if limit.factor is None else f", {limit.factor:g} of its quota"
        message = f"asks for {limit.needed} {kind} at once; one user may hold {limit.most} in {spec.vc}{part}"
        return Finding(("taskRoles",), message, "user_cap")
    if refusal.role is None:
        return Finding(("taskRoles",), refusal.sentence, "never_fits")
    if refusal.field == "pinned_cell":
        return _no_pin(refusal, spec, cluster)
    return Finding(("taskRoles", refusal.role), refusal.sentence, "never_fits")


def _no_pin(refusal: scheduling.Refusal, spec: JobSpec, cluster: ClusterFacts) -> Finding:
    role, own = spec.role(refusal.role or ""), cluster.context.layout.virtual_clusters[spec.vc].pinned
    path: Path = (*_SKUS, role.name, "pinnedCellId")
    if role.pinned_cell in own:
        return Finding(path, refusal.sentence, "never_fits")
    known = ", ".join(sorted(own)) or "none"
    return Finding(path, f"{spec.vc} has no reserved servers {role.pinned_cell}; it has: {known}", "unknown")


def _ask(job: Raw, name: str, role: Raw) -> _Ask:
    resources = raw.mapping(role, "resourcePerInstance")
    entry = raw.mapping(job, "extras", "hivedScheduler", "taskRoles", name)
    return _Ask(
        role=name,
        tasks=raw.task_range(job, name, role)[0],
        gpus=raw.whole(resources.get("gpu")),
        cpu=raw.whole(resources.get("cpu")),
        memory_mb=raw.whole(resources.get("memoryMB")),
        sku=raw.text(entry.get("skuType")),
        pinned=raw.text(entry.get("pinnedCellId")) is not None,
    )


def _unknown_vc(vc: str, cluster: ClusterFacts) -> Finding:
    yours = ", ".join(sorted(cluster.quotas)) or "none"
    message = f"you may not submit to virtual cluster {vc[:80]}; yours: {yours}"
    return Finding(("defaults", "virtualCluster"), message, "vc_unknown")


def _sku_finding(
    ask: _Ask, vc: str, quota: Mapping[str, int], cluster: ClusterFacts, opportunistic: bool
) -> Finding | None:
    if ask.sku is None:
        return None
    path = (*_SKUS, ask.role, "skuType")
    if ask.sku not in cluster.skus:
        known = ", ".join(sorted(cluster.skus)) or "none"
        return Finding(path, f"no SKU is named {ask.sku[:80]}; known: {known}", "sku_unknown")
    if not opportunistic and not quota.get(ask.sku) and ask.gpus and not ask.pinned:
        owned = ", ".join(sorted(sku for sku, count in quota.items() if count)) or "no GPUs"
        return Finding(path, f"virtual cluster {vc} has no {ask.sku}; it has: {owned}", "sku_not_in_vc")
    return None


def _allowed(ask: _Ask, quota: Mapping[str, int], cluster: ClusterFacts, opportunistic: bool) -> list[NodeShape]:
    """Nodes that a task of the role may run on. Without GPUs any node that takes such tasks; opportunistic jobs
    anywhere; others only SKUs of the quota. A pinned cell may lie outside of it."""
    if ask.gpus == 0:
        return [node for node in cluster.nodes if node.cpu_tasks and ask.sku in (None, node.sku)]
    if ask.sku is not None:
        return [node for node in cluster.nodes if node.sku == ask.sku]
    if opportunistic or ask.pinned:
        return list(cluster.nodes)
    return [node for node in cluster.nodes if node.sku is not None and quota.get(node.sku)]


def _node_findings(ask: _Ask, nodes: list[NodeShape], gang: bool) -> Iterator[Finding]:
    if not nodes and not ask.gpus:
        where = f"no server with {ask.sku}" if ask.sku else "no server of this cluster"
        yield Finding((*ask.path, "gpu"), f"asks for no GPUs; {where} takes tasks without GPUs", "no_cpu_node")
        return
    if any(_holds(node, ask) for node in nodes):
        room = sum(node.count * _tasks_on(node, ask) for node in nodes)
        if gang and room < ask.tasks:
            message = f"asks for {ask.tasks:,} tasks at once; all nodes together, empty, hold {room:,} of this size"
            yield Finding(("taskRoles", ask.role, "instances"), message, "cluster_too_small")
        return
    largest = list(_too_large(ask, nodes))
    yield from largest
    if not largest:
        message = f"no node has {_gpus(ask.gpus)}, {_cores(ask.cpu)} and {ask.memory_mb:,} MB together"
        yield Finding(ask.path, message, "node_too_small")


def _too_large(ask: _Ask, nodes: list[NodeShape]) -> Iterator[Finding]:
    where = f"of SKU {ask.sku} " if ask.sku else ""
    dimensions = (
        ("gpu", ask.gpus, max((node.gpus for node in nodes), default=0), _gpus),
        ("cpu", ask.cpu, max((node.cpu for node in nodes), default=0), _cores),
        ("memoryMB", ask.memory_mb, max((node.memory_mb for node in nodes), default=0), _memory),
    )
    for key, asked, most, words in dimensions:
        if asked > most:
            message = f"asks for {words(asked)} per task; the largest node {where}it may use has {most:,}"
            yield Finding((*ask.path, key), message, "node_too_small")


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'s' * (count != 1)}"


def _cores(count: int) -> str:
    return f"{count:,} CPU core{'s' * (count != 1)}"


def _memory(count: int) -> str:
    return f"{count:,} MB of memory"


def _holds(node: NodeShape, ask: _Ask) -> bool:
    return node.gpus >= ask.gpus and node.cpu >= ask.cpu and node.memory_mb >= ask.memory_mb


def _tasks_on(node: NodeShape, ask: _Ask) -> int:
    pairs = ((node.gpus, ask.gpus), (node.cpu, ask.cpu), (node.memory_mb, ask.memory_mb))
    return min((have // want for have, want in pairs if want > 0), default=ask.tasks)


def _quota_findings(asks: list[_Ask], vc: str, quota: Mapping[str, int]) -> Iterator[Finding]:
    """Checks that a gang fits the quota at once: roles that name a SKU in that SKU's, the others together in one SKU's,
    since a gang does not mix SKUs by itself. Pinned roles have their own cells."""
    named: dict[str, int] = {}
    free = 0
    for ask in asks:
        if ask.pinned:
            continue
        if ask.sku is not None and quota.get(ask.sku):
            named[ask.sku] = named.get(ask.sku, 0) + ask.all_gpus
        elif ask.sku is None:
            free += ask.all_gpus
    for sku, count in sorted(named.items()):
        if count > quota[sku]:
            yield _over_quota(count, quota[sku], vc, f"{sku} ")
    most = max((max(count - named.get(sku, 0), 0) for sku, count in quota.items()), default=0)
    if free > most:
        yield _over_quota(free, most, vc, "")


def _over_quota(asked: int, most: int, vc: str, sku: str) -> Finding:
    """OpenPAI's sentence; its SKUs are GPUs here."""
    message = f"Job requests {asked} {sku}SKUs, exceeds maximum {most} {sku}SKUs in VC {vc}."
    return Finding(("taskRoles",), message, "over_quota")

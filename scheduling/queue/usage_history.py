"""Each user's recent use of a virtual cluster's quota; it counts half after a half-life.

A user's share is what the user's guaranteed tasks held, as a part of what the virtual cluster owns, averaged over
the past with weights that halve every `Policy.half_life_ms`; of several resources the largest part counts (the
dominant one). 1 is somebody who has always held all of it. Only what is held inside the quota counts, so that
the order inside a virtual cluster follows from its own guaranteed jobs alone. Tasks without GPUs run outside
every quota: they have an account of their own, which orders only jobs without GPUs.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import exp2, fsum, log

from scheduling.model.cluster import Cluster
from scheduling.model.job import Job, Standing, TaskPlacement
from scheduling.model.snapshot import RunningTask, Usage
from scheduling.queue.dominant_share import Amounts

HOUR_MS = 3_600_000
CPU = "cpu"
MEMORY = "memory"
LOOSE_CPU = "cpu without gpu"
LOOSE_MEMORY = "memory without gpu"
LOOSE = frozenset({LOOSE_CPU, LOOSE_MEMORY})
"""What tasks without GPUs use."""

DIGITS = 12
"""Shares that agree to so many decimals are equal; what is beyond is rounding."""

Account = tuple[str, str]
"""A virtual cluster and a user of it."""

Since = dict[int, dict[str, int]]
"""What is held, by the moment (ms) since when."""


def amounts_of(placement: TaskPlacement, leaf_types: Mapping[str, str]) -> dict[str, int]:
    """What a placed task uses, as shares count it; empty for a task on borrowed cells."""
    if not placement.leaves:
        return {LOOSE_CPU: placement.cpu_milli, LOOSE_MEMORY: placement.memory_mb}
    right = Standing.GUARANTEED
    for _, _, standing in placement.leaves:
        if standing is not right:
            return {}
    cell_type = leaf_types.get(placement.leaves[0].leaf, "")
    return {cell_type: len(placement.leaves), CPU: placement.cpu_milli, MEMORY: placement.memory_mb}


def hourly(vc: str, user: str, amounts: Amounts, started_ms: int, ended_ms: int) -> Iterator[Usage]:
    """The rows that a task leaves when it ends: its amounts times the milliseconds of each hour it ran in."""
    hour = started_ms - started_ms % HOUR_MS
    while hour < ended_ms:
        ran = min(ended_ms, hour + HOUR_MS) - max(started_ms, hour)
        for resource, amount in amounts.items():
            if amount:
                yield Usage(vc, user, resource, hour, amount * ran)
        hour += HOUR_MS


def owned_amounts(cluster: Cluster) -> dict[str, dict[str, float]]:
    """What each virtual cluster owns: its leaf cells by type, and the CPU and memory that come with them.

    A leaf cell comes with the mean CPU and memory of a leaf cell of its type. For tasks without GPUs all nodes that
    take such tasks are the measure.
    """
    leaves, cpu, memory = _hardware(cluster)
    loose = {
        LOOSE_CPU: float(sum(node.cpu_milli for node in cluster.nodes if node.takes_cpu_tasks)),
        LOOSE_MEMORY: float(sum(node.memory_mb for node in cluster.nodes if node.takes_cpu_tasks)),
    }
    found = {}
    for vc, owned in _owned_leaves(cluster).items():
        there = {cell_type: count for cell_type, count in owned.items() if leaves.get(cell_type)}
        found[vc] = {
            **{cell_type: float(count) for cell_type, count in there.items()},
            CPU: fsum(count * cpu[one] / leaves[one] for one, count in there.items()),
            MEMORY: fsum(count * memory[one] / leaves[one] for one, count in there.items()),
            **loose,
        }
    return found


def _hardware(cluster: Cluster) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """By leaf cell type: leaf cells, and CPU and memory of their nodes."""
    leaves: dict[str, int] = {}
    cpu: dict[str, int] = {}
    memory: dict[str, int] = {}
    for node in cluster.nodes:
        if node.leaves:
            leaves[node.cell_type] = leaves.get(node.cell_type, 0) + len(node.leaves)
            cpu[node.cell_type] = cpu.get(node.cell_type, 0) + node.cpu_milli
            memory[node.cell_type] = memory.get(node.cell_type, 0) + node.memory_mb
    return leaves, cpu, memory


def _owned_leaves(cluster: Cluster) -> dict[str, dict[str, int]]:
    """By virtual cluster: the leaf cells of its quota and its pinned cells, by their type."""
    types = {one.name: one for one in cluster.cell_types}
    shapes = {node.shape: (node.cell_type, len(node.leaves)) for node in cluster.nodes if node.leaves}
    pinned = {one.id: one.cell_type for one in cluster.pinned_cells}

    def leaves(name: str) -> tuple[str, int]:
        if name not in types:
            return shapes.get(name, (name, 1))
        leaf, count = leaves(types[name].child)
        return leaf, count * types[name].child_count

    found: dict[str, dict[str, int]] = {}
    for vc in cluster.virtual_clusters:
        owned = found[vc.id] = dict[str, int]()
        cells = [(line.cell_type, line.count) for line in vc.quota] + [(pinned[one], 1) for one in vc.pinned]
        for name, number in cells:
            leaf, count = leaves(name)
            owned[leaf] = owned.get(leaf, 0) + number * count
    return found


class UsageHistory:
    """Who has what since when, and past use: kept up to date by events, asked once per cycle.

    Past use is one row for each user and resource: rows of earlier hours are folded into the newest by the
    half-life, which weighs the same. One made of `rows()` and the running jobs equals this one.
    """

    def __init__(self, cluster: Cluster, usage: Iterable[Usage] = ()) -> None:
        self.half_life_ms = cluster.policy.half_life_ms
        self.held: dict[Account, Since] = {}
        self._of_job: dict[str, tuple[Account, Since]] = {}
        self.reconfigure(cluster)
        self.begin(usage)

    def begin(self, usage: Iterable[Usage]) -> None:
        """This is all past use."""
        self.past: dict[Account, dict[str, Usage]] = {}
        for row in sorted(usage, key=_of_row):
            self.note(row)

    def reconfigure(self, cluster: Cluster) -> None:
        """Nodes or quotas changed: what everybody used stays, what it is a part of is new."""
        self.owned = owned_amounts(cluster)
        self._leaf_types = cluster.leaf_types

    def update(self, job: Job, tasks: Iterable[RunningTask]) -> None:
        """These are the job's placed tasks now; none when it has ended."""
        groups: Since = {}
        for task in tasks:
            amounts = amounts_of(task.placement, self._leaf_types)
            if not amounts:
                continue
            alike = groups.setdefault(task.since_ms, amounts)
            if alike is not amounts:
                _add(alike, amounts, 1)
        before = self._of_job.pop(job.id, None)
        if before is not None:
            self._sum_up(*before, -1)
        if groups:
            self._of_job[job.id] = (job.vc, job.user), groups
            self._sum_up((job.vc, job.user), groups, 1)

    def _sum_up(self, account: Account, groups: Since, sign: int) -> None:
        held = self.held.setdefault(account, {})
        for started, amounts in groups.items():
            sums = held.setdefault(started, {})
            _add(sums, amounts, sign)
            if sign < 0 and not any(sums.values()):
                del held[started]

    def ended(self, job: Job, task: RunningTask, now: int) -> None:
        """A task of the job ends, or goes on on loan, at this moment (ms); what it used inside the quota is noted."""
        amounts = amounts_of(task.placement, self._leaf_types)
        for row in hourly(job.vc, job.user, amounts, task.since_ms, now):
            self.note(row)

    def note(self, row: Usage) -> None:
        """An ended task's use."""
        rows = self.past.setdefault((row.vc, row.user), {})
        before = rows.get(row.resource)
        rows[row.resource] = row if before is None else self._fold(before, row)

    def rows(self) -> tuple[Usage, ...]:
        """Past use as data, in order."""
        found = [row for rows in self.past.values() for row in rows.values()]
        return tuple(sorted(found, key=_of_row))

    def shares(self, now: int) -> "UserShares":
        """The shares of this moment (ms)."""
        return UserShares(self, now)

    def _fold(self, one: Usage, other: Usage) -> Usage:
        older, newer = sorted((one, other), key=_of_row)
        decayed = round(older.amount * 0.5 ** ((newer.hour_ms - older.hour_ms) / self.half_life_ms))
        return Usage(newer.vc, newer.user, newer.resource, newer.hour_ms, decayed + newer.amount)


def _of_row(row: Usage) -> tuple[str, str, str, int, int]:
    return (row.vc, row.user, row.resource, row.hour_ms, row.amount)


class UserShares:
    """Each user's share at one moment, worked out when it is asked for.

    A task counts as if it had run for an hour at least: what starts is charged in advance, so that users who
    come together take turns. An hour's past use counts as in the middle of its hour.
    """

    def __init__(self, history: UsageHistory, now: int) -> None:
        self._history = history
        self._now = now
        self._base: dict[Account, dict[str, float]] = {}
        self._added: dict[Account, dict[str, int]] = {}
        self._known: dict[Account, tuple[float, float]] = {}

    def of(self, vc: str, user: str, *, loose: bool = False) -> float:
        """The user's share in the virtual cluster; 0 is nothing so far. `loose`: of tasks without GPUs."""
        account = (vc, user)
        found = self._known.get(account)
        if found is None:
            found = self._known[account] = self._work_out(account)
        return found[loose]

    def add(self, vc: str, user: str, amounts: Amounts) -> None:
        """Adds what the user gets in this cycle."""
        _add(self._added.setdefault((vc, user), {}), amounts, 1)
        self._known.pop((vc, user), None)

    def _work_out(self, account: Account) -> tuple[float, float]:
        base = self._base.get(account)
        if base is None:
            base = self._base[account] = self._until_now(account)
        added, weight = self._added.get(account, {}), self._weight(self._now)
        owned = self._history.owned.get(account[0], {})
        share = loose = 0.0
        for one in {*base, *added}:
            if owned.get(one):
                part = round((base.get(one, 0.0) + added.get(one, 0) * weight) / owned[one], DIGITS)
                if one in LOOSE:
                    loose = max(loose, part)
                else:
                    share = max(share, part)
        return share, loose

    def _until_now(self, account: Account) -> dict[str, float]:
        """Each resource, times the part of the whole weighted past it was held for."""
        parts: dict[str, list[float]] = {}
        for started, amounts in self._history.held.get(account, {}).items():
            weight = self._weight(started)
            for resource, amount in amounts.items():
                parts.setdefault(resource, []).append(amount * weight)
        half_life, now = self._history.half_life_ms, self._now
        for row in self._history.past.get(account, {}).values():
            age = max(0, now - row.hour_ms - HOUR_MS // 2)
            parts.setdefault(row.resource, []).append(row.amount * log(2) / half_life * 0.5 ** (age / half_life))
        return {resource: fsum(found) for resource, found in parts.items()}

    def _weight(self, started_ms: int) -> float:
        """What part of the whole weighted past has passed since then; an hour at least."""
        return 1.0 - exp2(-max(self._now - started_ms, HOUR_MS) / self._history.half_life_ms)


def _add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    for resource, amount in amounts.items():
        sums[resource] = sums.get(resource, 0) + sign * amount

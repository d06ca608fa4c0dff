"""A small HiveD after its published description, for tests alone: the oracle that our engine is compared with.

It keeps no counters and no free lists: all it knows is who holds and who claims what. What it does follows the
sections of the description: virtual nodes and packing (5), buddy allocation and its safe relaxation (6), bad cells
and doomed ones (8), preemption and lazy preemption (9, 10).
"""

from collections.abc import Iterable
from dataclasses import replace

from scheduling.cells.allocator import PlacementConflict
from scheduling.model.cell_tree import CellTree
from scheduling.model.cluster import Cluster
from scheduling.model.description import Node
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Code, Demotion, Preempt, Reason, Start, Victim, Wait
from scheduling.model.snapshot import Claim, Running, RunningTask, Snapshot
from tests.hived.binding import Bindings, Grid, QuotaCell, doomed_among, uses_of
from tests.hived.mapping import Mapping
from tests.hived.packing import Picked, View, greedy, rank

OPPORTUNISTIC = -1
Given = list[tuple[int, list[tuple[str, str | None]]]]


class Doomed:
    """How many bad nodes a quota cell shows to its virtual cluster beside those that something runs on."""

    def __init__(self, bindings: Bindings, node_of: dict[str, str]) -> None:
        self.bindings, self.grid, self.node_of = bindings, bindings.grid, node_of
        whole = bindings.whole()
        self.left: dict[tuple[str, str, str], list[int]] = {}
        for one in doomed_among(bindings):
            bad = [count for cell in whole.get((one.chain, one.cell_type), []) if (count := self._bad(cell))]
            self.left[one[:3]] = bad[: one.cells]

    def inside(self, cell: QuotaCell) -> int:
        bound = self.bindings.bound.get(cell)
        if bound is not None or cell.pinned:
            physical = bound.physical if bound else self.grid.pinned[cell.pinned]
            taken = {self.node_of[use.leaf] for use in bound.uses.values()} if bound else set()
            return self._bad([leaf for leaf in physical if self.node_of[leaf] not in taken])
        left = self.left.get((cell.vc, cell.chain, cell.cell_type))
        return left.pop(0) if left else 0

    def _bad(self, leaves: Iterable[str]) -> int:
        return len({self.node_of[leaf] for leaf in leaves if leaf in self.grid.bad})


class Reference:
    """HiveD's answers behind the engine's interface, as far as a replay asks for it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.running: dict[str, Running] = {}
        self.waiting: dict[str, Job] = {}
        self.claims: dict[str, Claim] = {}
        self.orders: dict[tuple[str, str], list[object]] = {}
        self._asked: dict[tuple[str, str], list[object]] = {}
        self._learn()

    def _learn(self) -> None:
        self.grid = Grid(self.cluster)
        self.sites = CellTree(self.cluster)
        self.node_of = {leaf.id: node.id for node in self.cluster.nodes for leaf in node.leaves}

    # The engine's interface

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.cluster, tuple(self.running.values()), tuple(self.waiting.values()), tuple(self.claims.values())
        )

    def look(self, job: Job, nodes: frozenset[str] | None) -> None:
        self.decide(job, 0, nodes)
        self.orders |= self._asked

    def submit(self, job: Job) -> None:
        self.waiting[job.id] = job

    def start(self, start: Start) -> None:
        held = {use.leaf for one in self.running.values() for task in one.tasks for use in task.placement.leaves}
        mine = {use.leaf for one in start.placements for use in one.leaves}
        others = {leaf for leaf, one in self.claims.items() if one.claimant != start.job.id}
        for leaf in sorted(mine & (held | others)):
            raise PlacementConflict(leaf)
        self.claims = {leaf: one for leaf, one in self.claims.items() if leaf not in mine}
        self.waiting.pop(start.job.id, None)
        self.running[start.job.id] = Running(
            start.job, tuple(RunningTask(placement, start.at_ms) for placement in start.placements)
        )

    def finish(self, job_id: str) -> None:
        assert job_id in self.running or job_id in self.waiting
        self.running.pop(job_id, None)
        self.waiting.pop(job_id, None)
        self.claims = {
            leaf: one._replace(victim=None) if one.victim == job_id else one
            for leaf, one in self.claims.items()
            if one.claimant != job_id
        }

    def claim(self, claim: Claim) -> None:
        self.claims[claim.leaf] = claim

    def release(self, leaf: str) -> None:
        self.claims.pop(leaf, None)

    def demote(self, demotion: Demotion) -> None:
        running = self.running[demotion.job]
        tasks = []
        for task in running.tasks:
            uses = tuple(LeafUse(use.leaf, None, Standing.BORROWED) for use in task.placement.leaves)
            tasks.append(task._replace(placement=task.placement._replace(leaves=uses)))
        self.running[demotion.job] = running._replace(tasks=tuple(tasks))

    def set_node(self, node: Node) -> None:
        nodes = tuple(node if one.id == node.id else one for one in self.cluster.nodes)
        self.cluster = replace(self.cluster, nodes=nodes)
        self._learn()

    # Section 4: the answer

    def decide(
        self, job: Job, now: int, nodes: frozenset[str] | None, may_preempt: bool = True
    ) -> Start | Preempt | Wait:
        self._asked = {}
        for chain in self._chains(job):
            found = self._in_chain(job, chain, nodes)
            if found is not None:
                placements, demoted = found
                return self._answer(job, placements, now, demoted)
        return Wait(job, Reason(Code.FRAGMENTED, {}, "there is no place"))

    def _answer(
        self, job: Job, placements: list[TaskPlacement], now: int, demoted: Iterable[str] = ()
    ) -> Start | Preempt:
        leaves = {use.leaf for one in placements for use in one.leaves}
        victims = [
            Victim(one.job.id, tuple(task.placement.task for task in one.tasks), 0)
            for one in self.running.values()
            if any(use.leaf in leaves for task in one.tasks for use in task.placement.leaves)
        ]
        if victims:
            return Preempt(job, tuple(placements), tuple(victims), now, tuple(sorted(demoted)))
        return Start(job, tuple(placements), now, tuple(sorted(demoted)))

    def _chains(self, job: Job) -> list[str]:
        sku = job.roles[0].sku
        pinned = job.roles[0].pinned_cell
        chains = {
            self.grid.chain_of_leaf[leaf] for leaf, kind in self.cluster.leaf_types.items() if sku in (None, kind)
        }
        quota = self.grid.quota[job.vc]
        if pinned:
            return [one.chain for one in quota if one.pinned == pinned]
        if job.priority != OPPORTUNISTIC:
            chains &= {one.chain for one in quota if not one.pinned}
        return sorted(chains, reverse=True)

    def _in_chain(
        self, job: Job, chain: str, nodes: frozenset[str] | None
    ) -> tuple[list[TaskPlacement], set[str]] | None:
        sizes = sorted(role.gpus for role in job.roles for _ in range(role.count))
        if job.priority == OPPORTUNISTIC:
            picked = self._pack(sizes, job.priority, self._physical_views(chain, nodes), ("", chain), False)
            if picked is None:
                return None
            return self._placed(job, [(size, [(leaf, None) for leaf in leaves]) for size, leaves in picked]), set()
        pinned = job.roles[0].pinned_cell or ""
        uses = uses_of(self.snapshot())
        bindings = Bindings(self.grid, uses)
        views = self._virtual_views(job.vc, chain, pinned, bindings, nodes)
        chosen = self._pack(sizes, job.priority, views, (job.vc, f"{chain}/{pinned}"), True)
        if chosen is None:
            return None
        wanted = [vleaf for _, vleaves in chosen for vleaf in vleaves]
        demoted = {
            bindings.bound[cell].uses[at].job
            for cell, at in wanted
            if cell in bindings.bound and at in bindings.bound[cell].uses
        }
        demoted = {name for name in demoted if name in self.running and self.running[name].job.lazy_preemption}
        bindings = Bindings(self.grid, [one for one in uses if one.job not in demoted])
        mapped = Mapping(self.grid, self.node_of, bindings, self._lent(demoted), nodes).map(wanted)
        if mapped is None:
            return None
        given: Given = [
            (size, [(mapped[vleaf], self.grid.address(*vleaf)) for vleaf in vleaves]) for size, vleaves in chosen
        ]
        return self._placed(job, given), demoted

    def _lent(self, demoted: set[str]) -> set[str]:
        """Leaves that are held outside every quota."""
        return {
            use.leaf
            for running in self.running.values()
            for task in running.tasks
            for use in task.placement.leaves
            if not use.virtual_cell or running.job.id in demoted
        }

    def _placed(self, job: Job, given: Given) -> list[TaskPlacement]:
        left = {role.gpus: [TaskRef(role.name, index) for index in range(role.count)] for role in job.roles}
        placements = []
        for size, leaves in given:
            uses = tuple(
                LeafUse(leaf, cell, Standing.GUARANTEED if cell else Standing.BORROWED) for leaf, cell in leaves
            )
            placements.append(TaskPlacement(left[size].pop(0), self.node_of[uses[0].leaf], uses, 0, 0))
        return placements

    # Section 5: which nodes, which leaves

    def _physical_views(self, chain: str, nodes: frozenset[str] | None) -> list[tuple[object, View]]:
        priority = self._leaf_priorities()
        made: list[tuple[object, View]] = []
        for node in self.cluster.nodes:
            if (node.chain or node.cell_type) != chain:
                continue
            leaves = [leaf.id for leaf in node.leaves]
            sizes = tuple(self.sites.levels(node).values())
            view = View(leaves, sizes)
            view.used = {at: priority[leaf] for at, leaf in enumerate(leaves) if leaf in priority}
            view.healthy = self.grid.bad.isdisjoint(leaves)
            view.suggested = nodes is None or node.id in nodes
            made.append((node.id, view))
        return made

    def _leaf_priorities(self) -> dict[str, int]:
        found = {}
        for running in self.running.values():
            for task in running.tasks:
                for use in task.placement.leaves:
                    found[use.leaf] = running.job.priority if use.virtual_cell else OPPORTUNISTIC
        for claim in self.claims.values():
            found[claim.leaf] = self.waiting[claim.claimant].priority
        return found

    def _virtual_views(
        self, vc: str, chain: str, pinned: str, bindings: Bindings, nodes: frozenset[str] | None
    ) -> list[tuple[object, View]]:
        made: list[tuple[object, View]] = []
        doomed = Doomed(bindings, self.node_of)
        cells = [one for one in self.grid.quota[vc] if one.chain == chain and one.pinned == pinned]
        cells.sort(key=lambda cell: -min(self._node_levels(cell), len(self.grid.sizes[cell.chain, cell.cell_type])))
        for cell in cells:
            sizes = self.grid.sizes[cell.chain, cell.cell_type]
            inner = sizes[-self._node_levels(cell) :]
            hidden = doomed.inside(cell)
            for first in range(0, sizes[0], inner[0]):
                view = self._virtual_view(cell, first, inner, bindings, nodes)
                if hidden and not view.used and (cell not in bindings.bound or sizes[0] > inner[0]):
                    view.healthy = False
                    hidden -= 1
                made.append(((cell, first), view))
        return made

    def _node_levels(self, cell: QuotaCell) -> int:
        leaf = self.grid.cells[cell.chain, cell.cell_type][0][0]
        return len(self.sites.levels(self.sites.nodes[self.node_of[leaf]]))

    def _virtual_view(
        self, cell: QuotaCell, first: int, sizes: tuple[int, ...], bindings: Bindings, nodes: frozenset[str] | None
    ) -> View:
        view = View([(cell, first + at) for at in range(sizes[0])], sizes)
        bound = bindings.bound.get(cell)
        uses = bound.uses if bound else {}
        view.used = {at: uses[first + at].priority for at in range(sizes[0]) if first + at in uses}
        physical = bound.physical if bound else self.grid.pinned.get(cell.pinned)
        if view.used and physical is not None:
            leaf = uses[first + min(view.used)].leaf
            node = self.sites.nodes[self.node_of[leaf]]
            view.healthy = self.grid.bad.isdisjoint(one.id for one in node.leaves)
            view.suggested = nodes is None or node.id in nodes
        elif physical is not None and len({self.node_of[leaf] for leaf in physical}) == 1:
            view.healthy = self.grid.bad.isdisjoint(physical)
            view.suggested = nodes is None or self.node_of[physical[0]] in nodes
        return view

    def _pack(
        self, sizes: list[int], priority: int, views: list[tuple[object, View]], key: tuple[str, str], crossing: bool
    ) -> list[Picked] | None:
        by_id = dict(views)
        order = self.orders.get(key) or [name for name, _ in views]
        order = [name for name in order if name in by_id] + [name for name, _ in views if name not in order]
        for floor in dict.fromkeys((OPPORTUNISTIC, priority)):
            order = sorted(order, key=lambda name: rank(by_id[name], floor, crossing))
            self._asked[key] = order
            found = greedy(sizes, [by_id[name] for name in order], floor)
            if found is not None:
                return found
        return None

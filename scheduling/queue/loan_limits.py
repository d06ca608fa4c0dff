"""Idle cells on loan: who may borrow how much, and whose turn it is."""

from collections.abc import Iterable, Mapping

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import CellIndex
from scheduling.cells.claims import needs_of, parked_in
from scheduling.cells.node_bits import bits
from scheduling.model.description import VirtualCluster
from scheduling.model.job import Job, TaskPlacement, TaskRef
from scheduling.model.snapshot import Claim, Running
from scheduling.queue.dominant_share import Amounts, DominantShares
from scheduling.queue.usage_history import CPU, MEMORY


class Loans:
    """What is on loan now, by virtual cluster and by leaf type, and what parked jobs would lend, kept up to date during
    a cycle."""

    def __init__(self, layout: CellIndex, total: Amounts, shares: DominantShares) -> None:
        self._layout = layout
        self.total = total
        self.shares = shares
        self.by_vc: dict[tuple[str, str], int] = {}
        self.by_type: dict[str, int] = {}
        self.parked: dict[tuple[str, str], int] = {}
        self._ranks: dict[str, dict[int, int]] = {}
        self._leaving: set[tuple[str, TaskRef]] = set()
        self._returning: dict[str, dict[str, int]] = {}
        self._apart_at: dict[str, int] = {}  # the state of the virtual cells with which a share was set apart

    @classmethod
    def of(cls, layout: CellIndex, running: Mapping[str, Running]) -> "Loans":
        """What these jobs have on loan."""
        total = {
            CPU: sum(node.cpu_milli for node in layout.nodes),
            MEMORY: sum(node.memory_mb for node in layout.nodes),
        }
        for kind in layout.leaf_types():
            total[kind] = sum(len(layout.leaf_ids[number]) for number in bits(layout.nodes_of_type[kind]))
        weights = {vc.id: vc.rules.weight for vc in layout.virtual_clusters.values()}
        loans = cls(layout, total, DominantShares(total, weights))
        for one in running.values():
            for task in one.tasks:
                loans.count(one.job, task.placement, 1)
                if task.leaving:
                    loans.leave(one.job, task.placement)
        return loans

    def copy(self) -> "Loans":
        """An independent one with the same contents."""
        twin = Loans(self._layout, self.total, self.shares.copy())
        twin.by_vc, twin.by_type, twin.parked = self.by_vc.copy(), self.by_type.copy(), self.parked.copy()
        twin._ranks = {vc: ranks.copy() for vc, ranks in self._ranks.items()}
        twin._leaving = self._leaving.copy()
        twin._returning = {vc: amounts.copy() for vc, amounts in self._returning.items()}
        twin._apart_at = self._apart_at.copy()
        return twin

    def count(self, job: Job, placement: TaskPlacement, sign: int) -> None:
        """Counts a task on loan that comes (1) or goes (-1); without effect for one inside its quota."""
        amounts = self.amounts(job, placement)
        if not amounts:
            return
        one = (job.id, placement.task)
        if one in self._leaving:
            self._leaving.discard(one)
        else:
            self._share(job, {name: sign * amount for name, amount in amounts.items()})
        for kind, count in amounts.items():
            if kind not in (CPU, MEMORY):
                self.by_vc[job.vc, kind] = self.by_vc.get((job.vc, kind), 0) + sign * count
                self.by_type[kind] = self.by_type.get(kind, 0) + sign * count
                ranks = self._ranks.setdefault(job.vc, {})
                ranks[job.priority] = ranks.get(job.priority, 0) + sign * count

    def lowest(self, vc: str) -> int:
        """The lowest priority of those of the virtual cluster that have GPUs on loan; more than any where none has."""
        return min((rank for rank, count in self._ranks.get(vc, {}).items() if count), default=1 << 30)

    def claim(self, job: Job, claims: Iterable[Claim], sign: int) -> None:
        """The job is to have these leaves on loan (1), or is not (-1): its virtual cluster pays for them already. Where
        somebody is still on one, that one's loan counts as far as limits go. What a parked job claims is idle quota."""
        claims, kinds = tuple(claims), self._layout.cluster.leaf_types
        for leaf in parked_in(claims) if job.paused else ():
            key = job.vc, kinds.get(leaf, "")
            self.parked[key] = self.parked.get(key, 0) + sign
        mine = [claim for claim in claims if not claim.virtual_cell]
        for leaf, (cpu, memory) in needs_of(job, mine).items() if mine else ():
            self._share(job, {kinds.get(leaf, ""): sign, CPU: sign * cpu, MEMORY: sign * memory})
        for claim in mine:
            kind = kinds.get(claim.leaf, "")
            if claim.victim is None:
                self.by_vc[job.vc, kind] = self.by_vc.get((job.vc, kind), 0) + sign
                self.by_type[kind] = self.by_type.get(kind, 0) + sign

    def leave(self, job: Job, placement: TaskPlacement) -> None:
        """A task on loan is on its way out: its virtual cluster has paid with it already."""
        amounts = self.amounts(job, placement)
        if amounts and (job.id, placement.task) not in self._leaving:
            self._leaving.add((job.id, placement.task))
            self._share(job, {name: -amount for name, amount in amounts.items()})

    def _share(self, job: Job, amounts: Amounts) -> None:
        self.shares.take(job.vc, amounts)
        if not job.opportunistic:
            self._apart_at.pop(job.vc, None)
            returning = self._returning.setdefault(job.vc, {})
            for name, amount in amounts.items():
                returning[name] = returning.get(name, 0) + amount

    def set_own_apart(self, allocator: Allocator) -> None:
        """A virtual cluster's share on loan is what it has beyond its own idle quota: while jobs that may move into
        that run elsewhere, others may have what is its own, and it owes nobody for it."""
        for vc, returning in self._returning.items():
            state = allocator.virtual_state.get(vc, -1)  # -1: one that is no more has nothing of its own
            if self._apart_at.get(vc) == state:
                continue
            self._apart_at[vc] = state
            own: dict[str, int] = {}
            for kind in returning.keys() - {CPU, MEMORY}:
                idle = sum(allocator.quota_free(vc, chain) for chain in self._layout.chains_of(kind))
                own[kind] = min(returning[kind], idle)
            gpus = sum(returning[kind] for kind in own)
            if gpus:
                part = sum(own.values())
                own |= {name: returning[name] * part // gpus for name in (CPU, MEMORY)}
            self.shares.set_apart(vc, own)

    def amounts(self, job: Job, placement: TaskPlacement) -> Amounts:
        """What a task has on loan: nothing for one inside its quota."""
        lent = 0
        for _, address, _ in placement.leaves:
            lent += address is None
        if not lent and (placement.leaves or not job.opportunistic):
            return {}
        amounts = {CPU: placement.cpu_milli, MEMORY: placement.memory_mb}
        number = self._layout.position.get(placement.node)
        if lent and number is not None:
            amounts[self._layout.nodes[number].cell_type] = lent
        return amounts

    def within_own(self, vc: VirtualCluster, needs: Mapping[str, int]) -> str | None:
        """The first leaf type of which the virtual cluster would borrow more than it may; None: none."""
        for kind, count in needs.items():
            most = vc.rules.max_borrow.get(kind)
            if most is not None and self.by_vc.get((vc.id, kind), 0) + count > most:
                return kind
        return None

    def over_limits(self, allocator: Allocator, job: Job, claims: Iterable[Claim]) -> bool:
        """Whether more is on loan than may be, with these leaves that the job is to have on loan."""
        team = self._layout.virtual_clusters[job.vc]
        none_more = dict.fromkeys((self._layout.cluster.leaf_types[claim.leaf] for claim in claims), 0)
        return bool(self.within_own(team, none_more) or self.within_lent(allocator, none_more))

    def lendable(self, allocator: Allocator, kind: str) -> int:
        """GPUs of a type that may be on loan at once: unowned ones, and of each idle quota what its owner lends."""
        layout = self._layout
        chains = layout.chains_of(kind)
        owned = sum(layout.owned.get((vc, chain), 0) for vc in layout.virtual_clusters for chain in chains)
        most = max(0, self.total.get(kind, 0) - owned)
        for vc in layout.virtual_clusters.values() if layout.policy.lending else ():
            idle = sum(allocator.quota_free(vc.id, chain) for chain in chains) + self.parked.get((vc.id, kind), 0)
            limit = vc.rules.max_lend.get(kind)
            most += idle if limit is None else min(idle, limit)
        return most

    def within_lent(self, allocator: Allocator, needs: Mapping[str, int]) -> str | None:
        """The first leaf type of which more would be on loan than may be; None: none."""
        for kind, count in needs.items():
            if self.by_type.get(kind, 0) + count > self.lendable(allocator, kind):
                return kind
        return None

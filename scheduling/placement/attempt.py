"""One attempt to put a job on hardware: the leaves, CPU and memory that it takes, and who must leave for it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scheduling.cells.allocator import Allocator, PlacementConflict
from scheduling.cells.cell_state import KEY_SHIFT
from scheduling.cells.node_bits import Sizes, bits
from scheduling.cells.resources import Demand, FreeResources, nodes_for
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.placement.bin_packing import Bins, Group, find
from scheduling.placement.virtual_placement import VirtualPlacement
from scheduling.preemption.victim_cost import Cost, Loss, VictimCosts

Task = tuple[str, TaskRef]
"""A running task: its job's id and which."""


@dataclass(slots=True)
class PlacementAttempt:
    """The allocator as this job would change it, in a transaction that is rolled back in the end.

    `allowed`: the nodes it may use. `ending`: tasks that end in any case, so that their leaves cost nothing more.
    `evict`: others may be preempted. `alone`: it is about one task, so no later one has to find its leaves taken.
    `swap`: single leaves of ending tasks may be used although others than theirs are wanted. `resting`: leaves (a mask
    by node) too fresh to be lent to the job. `taken`: the tasks that must leave.
    """

    allocator: Allocator
    job: Job
    allowed: int
    costs: VictimCosts
    ending: frozenset[Task] = frozenset()
    evict: bool = True
    alone: bool = False
    swap: bool = False
    resting: Mapping[int, int] = field(default_factory=dict)
    leaves: dict[TaskRef, tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)
    taken: set[Task] = field(default_factory=set)
    spent: dict[int, tuple[int, int]] = field(default_factory=dict)

    def attempt(self, action: Callable[[], bool]) -> bool:
        """Does it, or leaves everything as it was when it fails or the trees forbid it."""
        before = dict(self.leaves), set(self.taken), dict(self.spent)
        self.allocator.begin()
        try:
            done = action()
        except PlacementConflict:
            done = False
        if done:
            self.allocator.commit()
        else:
            self.allocator.rollback()
            self.leaves, self.taken, self.spent = before
        return done

    def own_leaves(self) -> dict[int, int]:
        """The leaves (a mask by node) that the job's tasks have so far."""
        found: dict[int, int] = {}
        for number, mine in self.leaves.values():
            found[number] = found.get(number, 0) | sum(1 << bit for bit, _ in mine)
        return found

    def forget(self) -> None:
        """Starts over; for a job of one task."""
        self.leaves.clear()
        self.taken.clear()
        self.spent.clear()

    def ending_on(self, number: int) -> int:
        """Leaves of a node that ending tasks have."""
        if not self.ending:
            return 0
        tasks = self.allocator.tasks[number]
        return sum(self.allocator.mask_of(tasks[task]) for task in self.ending.intersection(tasks))

    def idle(self, number: int) -> int:
        """Leaves of a node that a borrower may take: those that idle, and those that ending tasks leave."""
        allocator = self.allocator
        return (
            allocator.healthy[number] & ~allocator.claimed[number] & ~(allocator.busy[number] & ~self.ending_on(number))
        )

    def unbound_on(self, number: int) -> int:
        """Leaves of a node that lie in no quota cell, or singly in one that a ending task leaves."""
        allocator = self.allocator
        free = allocator.full[number] & ~allocator.bound[number]
        for bit in bits(self.ending_on(number) & allocator.bound[number]) if self.swap else ():
            assignment = allocator.virtual_of.get(number << KEY_SHIFT | bit)
            if (
                assignment is not None
                and allocator.layout.loose_cells >> assignment[0] & 1
                and allocator.owner_of(assignment) != self.job.id
            ):
                free |= 1 << bit
        return free

    def price(self, number: int, mask: int, count: int) -> tuple[Cost, int]:
        """The cost of taking back `count` busy leaves in the mask on a node, and which are then free."""
        in_use = mask & self.allocator.busy[number] & ~self.ending_on(number)
        return self.costs.cheapest(self.allocator, number, in_use, count, self._gone())

    def at_least(self, blocks: Iterable[tuple[int, int]]) -> list[Cost]:
        """The least that a cell on each block (node, mask) costs: the loss of all jobs with leaves there."""
        busy = self.allocator.busy
        in_use = [(number, mask & busy[number]) for number, mask in blocks]
        if self.ending:
            in_use = [(number, mask & ~self.ending_on(number)) for number, mask in in_use]
        return self.costs.at_least(self.allocator, in_use, self._gone() if self.taken else ())

    def least_first(self, nodes: int, losses: Callable[[int], Iterable[Loss]]) -> Iterator[Loss]:
        """All `losses` on these nodes, the least first."""
        return self.costs.least_first(self.allocator, nodes, losses, self._gone())

    def _gone(self) -> set[str]:
        return {job for job, _ in self.taken if self.costs.is_gang(job)}

    def pay(self, number: int, mask: int, demands: Iterable[Demand], *, make_room: bool = True) -> bool:
        """Evicts the holders of these leaves. Returns whether the node then has CPU and memory for one task of each
        demand, also by taking some back (`make_room`)."""
        if self.resting and not self.has_rested(number, demands):
            return False
        in_use = mask & self.allocator.busy[number]
        for job in self.allocator.holders(number, in_use) if in_use else ():
            self._leave(job, number, mask)
        cpu, memory = self.spent.get(number, (0, 0))
        for demand in demands:
            cpu += demand.cpu_milli
            memory += demand.memory_mb
        self.spent[number] = cpu, memory
        if self._suffices(number):
            return True
        return make_room and self.evict and self._within_right(number, demands) and self._make_room(number)

    def _within_right(self, number: int, demands: Iterable[Demand]) -> bool:
        """Whether no task wants more of the node than the share of its GPUs; otherwise two that do could preempt each
        other in turns."""
        cpu, memory = self.allocator.layout.shares[number]
        return all(one.cpu_milli <= cpu * one.gpus and one.memory_mb <= memory * one.gpus for one in demands)

    def has_rested(self, number: int, demands: Iterable[Demand]) -> bool:
        """Whether tasks may borrow there what they want beyond the share of their GPUs, which belongs to idle GPUs."""
        return not self.resting.get(number, 0) & self.allocator.idle(number) or self._within_right(number, demands)

    def _leave(self, job: str, number: int, mask: int) -> None:
        """Tasks of the job with leaves in the mask, and of a gang all on this node, leave."""
        gang = self.costs.is_gang(job)
        for (owner, task), placement in self.allocator.tasks[number].items():
            if owner == job and (gang or self.allocator.mask_of(placement) & mask):
                self.taken.add((job, task))

    def left(self, number: int) -> tuple[int, int]:
        """CPU and memory that the node has when those who must leave are gone, less what is kept for claims."""
        allocator = self.allocator
        cpu, memory = allocator.cpu[number], allocator.memory[number]
        if allocator.kept[number]:
            kept = kept_beside(allocator, number, self.taken | self.ending)
            cpu, memory = cpu - kept[0], memory - kept[1]
        if self.taken or self.ending:
            for task, placement in allocator.tasks[number].items():
                if task in self.taken or task in self.ending:
                    cpu += placement.cpu_milli
                    memory += placement.memory_mb
        spent = self.spent.get(number, (0, 0))
        return cpu - spent[0], memory - spent[1]

    def _suffices(self, number: int) -> bool:
        cpu, memory = self.left(number)
        return cpu >= 0 and memory >= 0

    def _make_room(self, number: int) -> bool:
        """Takes CPU and memory back from as few borrowers as needed, in the order of `_loans`."""
        gone: list[set[Task]] = []
        for tasks in self._loans(number):
            if self._suffices(number):
                break
            gone.append(tasks - self.taken)
            self.taken |= tasks
        if not self._suffices(number):
            return False
        for tasks in reversed(gone[:-1]):
            self.taken -= tasks
            if not self._suffices(number):
                self.taken |= tasks
        return True

    def _loans(self, number: int) -> list[set[Task]]:
        """Who may have to give CPU and memory of the node back: those that end anyway, opportunistic jobs, then others
        as for GPUs, last non-preemptible ones; each with what ends together there.

        What is on loan: all that a task has whose GPUs are, or that has none; and what a task has beyond the share of
        its GPUs, where that is short. Inside the virtual cluster only strictly lower priorities give way, and tasks
        without GPUs.
        """
        costs, tasks = self.costs, self.allocator.tasks[number]
        cpu, memory = self.left(number)
        gangs = self._gone()
        ranked = []
        for task, placement in tasks.items():
            job, ref = task
            if task in self.taken or task in self.ending or job == self.job.id:
                continue
            over_cpu, over_memory = self._beyond(number, placement)
            on_loan = self.allocator.borrows(number, placement) or costs.is_opportunistic(job)
            if not (on_loan or (cpu < 0 and over_cpu) or (memory < 0 and over_memory)):
                continue
            leaving = job in gangs or costs.is_leaving(job, ref)
            if leaving or costs.gives_way(job, self.job, bare=not placement.leaves):
                together = {one for one in tasks if one[0] == job} if costs.is_gang(job) else {task}
                firm = not on_loan and costs.is_firm(job)
                ranked.append((not leaving, not costs.is_opportunistic(job), firm, costs.of(job), task, together))
        return [together for *_, together in sorted(ranked, key=lambda one: one[:-1])]

    def _beyond(self, number: int, placement: TaskPlacement) -> tuple[bool, bool]:
        """Whether the task has more of the node's CPU, and of its memory, than the share of its GPUs."""
        cpu, memory = self.allocator.layout.shares[number]
        gpus = len(placement.leaves)
        return placement.cpu_milli > cpu * gpus, placement.memory_mb > memory * gpus

    def bind(self, number: int, pairs: dict[int, int], assignment: VirtualPlacement) -> None:
        """Binds the assignment's virtual leaves to these bits of the node, which whoever had them by right loses.

        Raises PlacementConflict where the trees or safety forbid it.
        """
        allocator, cell = self.allocator, assignment.cell
        losers: dict[tuple[str, int], int] = {}
        for bit in pairs.values():
            before = allocator.virtual_of.get(number << KEY_SHIFT | bit)
            if before is not None:
                key = allocator.owner_of(before), before[0]
                losers[key] = losers.get(key, 0) | 1 << before[1]
        for (owner, other), mask in losers.items():
            allocator.unbind(owner, other, mask)
        quota = allocator.layout.quotas[allocator.layout.cell_quota[cell]]
        if not self.alone or quota.loose and quota.chain in allocator.cell_chains:  # else nothing could forbid it
            allocator.bind(self.job.id, number, cell, pairs)
        self.leaves[assignment.task] = number, sorted([(bit, virtual) for virtual, bit in pairs.items()])

    def placement(self, assignment: VirtualPlacement) -> TaskPlacement:
        """The guaranteed placement of a task that is bound."""
        layout = self.allocator.layout
        number, mine = self.leaves[assignment.task]
        ids, cells, right = layout.leaf_ids[number], layout.virtual_addresses[assignment.cell], Standing.GUARANTEED
        uses = tuple([LeafUse(ids[bit], cells[virtual], right) for bit, virtual in mine])
        demand = assignment.demand
        return TaskPlacement(assignment.task, layout.nodes[number].id, uses, demand.cpu_milli, demand.memory_mb)

    def without_gpus(self, parts: tuple[Demand, ...]) -> list[TaskPlacement] | None:
        """Places for tasks without GPUs, which take nothing back from anybody."""
        fills = find(IdleNodes(self, -1), parts)
        if fills is None:
            return None
        tasks = {id(part): iter(part.tasks) for part in parts}
        found = []
        for fill in fills:
            for _ in range(fill.count):
                task, node = next(tasks[id(fill.demand)]), self.allocator.layout.nodes[fill.bin].id
                found.append(TaskPlacement(task, node, (), fill.demand.cpu_milli, fill.demand.memory_mb))
        return found


class IdleNodes(Bins):
    """Nodes with what a job finds there without taking anything from anybody.

    `unbound`: only leaves that belong to no quota cell now. `lent`: only those that have idled long enough to be
    lent to the job. `nodes` limits them beside what the job allows.
    """

    limited = True

    def __init__(self, placing: PlacementAttempt, nodes: int, *, unbound: bool = False, lent: bool = False) -> None:
        self._placing = placing
        allocator = placing.allocator
        self._allowed = placing.allowed & nodes
        own = placing.own_leaves()
        for number, mask in placing.resting.items() if lent else ():
            own[number] = own.get(number, 0) | mask
        apart = -1 if placing.ending else sum(1 << number for number in own)
        found: dict[tuple[Sizes, int], int] = {}
        for (shape, bound, _, busy, blocked), members in allocator.groups.items():
            members &= self._allowed
            if not members:
                continue
            sizes = allocator.shapes[shape].sizes
            alike = members & ~apart
            if alike:
                key = sizes, allocator.shapes[shape].full & ~blocked & ~(bound if unbound else 0) & ~busy
                found[key] = found.get(key, 0) | alike
            for number in bits(members & apart):
                mine = allocator.full[number] & ~blocked & (placing.unbound_on(number) if unbound else -1)
                key = sizes, mine & ~(busy & ~placing.ending_on(number)) & ~own.get(number, 0)
                found[key] = found.get(key, 0) | 1 << number
        groups = [Group(sizes, free, members) for (sizes, free), members in found.items()]
        super().__init__(groups, placing.allocator.layout.mask_of(placing.job.warm_nodes))

    def room(self, number: int, free: int) -> FreeResources:
        """What the node has left."""
        cpu, memory = self._placing.left(number)
        return FreeResources(free, cpu, memory, *self._placing.allocator.layout.reserves[number])

    def takes(self, demand: Demand) -> int:
        """Nodes on which tasks of the demand may be at all."""
        placing = self._placing
        nodes = self._allowed & nodes_for(placing.allocator.layout, demand)
        shut = (one for one in placing.resting if nodes >> one & 1 and not placing.has_rested(one, (demand,)))
        return nodes & ~sum(1 << one for one in shut) if placing.resting else nodes


def kept_beside(allocator: Allocator, number: int, gone: Collection[Task]) -> tuple[int, int]:
    """CPU and memory that are kept beside the node's claimed GPUs and are not on them already, with tasks that still
    leave them (but for those that are `gone`). A parked container has its own, whoever is on its GPU."""
    parked = allocator.parked[number]
    claimed = allocator.claimed[number] & allocator.healthy[number] & ~parked
    kept = [amount for bit, amount in allocator.kept[number].items() if (claimed | parked) >> bit & 1]
    cpu, memory = sum(one for one, _ in kept), sum(one for _, one in kept)
    for task, placement in allocator.tasks[number].items() if kept else ():
        part = (allocator.mask_of(placement) & claimed).bit_count()
        if part and task not in gone:
            cpu -= placement.cpu_milli * part // len(placement.leaves)
            memory -= placement.memory_mb * part // len(placement.leaves)
    return max(0, cpu), max(0, memory)

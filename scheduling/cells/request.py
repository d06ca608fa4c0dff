"""What of a job its placement depends on: which cells its tasks need, in which chains it may find them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from scheduling.cells.cell_index import CellIndex
from scheduling.cells.resources import Demand, demands
from scheduling.model.job import Job, Role, TaskRef

CPU_CHAIN = ""
"""The chain of jobs without GPUs."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Tasks (equal ones together) that take cells of one chain, or of one pinned cell (`name` is its id then).

    `leaves` are the GPUs that the tasks need together.
    """

    name: str
    chain: str
    parts: tuple[Demand, ...]
    leaves: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", sum(part.gpus * part.count for part in self.parts))


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks that start together: all that wait of a gang, else one of several equal tasks (`tasks` are all)."""

    pools: tuple[Pool, ...]
    others: tuple[Demand, ...]
    tasks: tuple[TaskRef, ...]

    @property
    def parts(self) -> tuple[Demand, ...]:
        """All demands of the unit."""
        return (*(part for pool in self.pools for part in pool.parts), *self.others)

    def alone(self) -> "Unit":
        """What of it starts by itself: all of a gang, else the first of the equal tasks."""
        return self.of(self.tasks[0]) if self.tasks else self

    def of(self, task: TaskRef) -> "Unit":
        """The same for another one of the equal tasks."""
        pools = tuple(
            Pool(pool.name, pool.chain, tuple(one.part((task,)) for one in pool.parts)) for pool in self.pools
        )
        return Unit(pools, tuple(one.part((task,)) for one in self.others), (task,))


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to read the job: a chain for each of its SKUs. The units to start, the largest first."""

    chains: frozenset[str]
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class JobShape:
    """Equal jobs of a virtual cluster share one, so that one failed search answers for all of them.

    `chains` are those in whose order the job stands; `modest`: some task leaves idle GPUs their reserve.
    """

    number: int
    chains: frozenset[str]
    choices: tuple[Choice, ...]
    modest: bool

    def within(self, reserve: tuple[int, int]) -> bool:
        """Whether no task wants more CPU (milli-cores) and memory (MB) than its GPUs have at this reserve per GPU."""
        parts = [part for choice in self.choices for unit in choice.units for part in unit.parts]
        cpu, memory = reserve
        return all(part.cpu_milli <= cpu * part.gpus and part.memory_mb <= memory * part.gpus for part in parts)


class JobShapes:
    """Shapes of jobs on one cluster, each worked out once."""

    LIMIT = 8192

    def __init__(self, layout: CellIndex) -> None:
        self._layout = layout
        self._known: dict[object, JobShape] = {}
        self._of_job: dict[str, tuple[Job, JobShape]] = {}
        self._count = 0

    def of(self, job: Job) -> JobShape:
        """The job's shape."""
        known = self._of_job.get(job.id)
        if known is not None and known[0] is job:
            return known[1]
        shape = self._of_alike(job)
        if len(self._of_job) >= 4 * self.LIMIT:
            self._of_job.clear()
        self._of_job[job.id] = job, shape
        return shape

    def _of_alike(self, job: Job) -> JobShape:
        key = (
            job.vc, job.roles, job.wanted, job.gang, job.opportunistic,
            job.avoid_nodes, job.only_nodes, job.warm_nodes,
        )  # fmt: skip
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            self._count += 1
            shape = self._known[key] = self._work_out(job)
        return shape

    def _work_out(self, job: Job) -> JobShape:
        choices: list[Choice] = []
        for sku in candidates(self._layout, job):
            choices.extend(self._choices(job, sku))
        modest = any(part.modest for choice in choices for unit in choice.units for part in unit.parts)
        chains = frozenset(chain for choice in choices for chain in choice.chains)
        if not any(role.gpus for role in job.roles):
            chains = frozenset([CPU_CHAIN])
        return JobShape(self._count, chains or frozenset(_named(job.roles)), tuple(choices), modest)

    def _choices(self, job: Job, sku: str) -> Iterable[Choice]:
        parts = demands(job, sku)
        pinned = {role.name: role.pinned_cell for role in job.roles if role.pinned_cell}
        types = sorted({part.cell_type for part in parts if part.gpus})
        for chains in product(*(self._chains(job, kind) for kind in types)):
            of_type = dict(zip(types, chains, strict=True))
            if job.gang:
                units: tuple[Unit, ...] = (self._unit(job, parts, of_type, pinned, ()),)
            else:
                units = tuple(
                    self._unit(job, (part.part(tasks[:1]),), of_type, pinned, tasks)
                    for part in parts
                    for tasks in _by_pin(part, pinned).values()
                )
            yield Choice(frozenset(chains), units)

    def _unit(
        self,
        job: Job,
        parts: tuple[Demand, ...],
        of_type: dict[str, str],
        pinned: dict[str, str],
        tasks: tuple[TaskRef, ...],
    ) -> Unit:
        pools: dict[tuple[str, str], list[Demand]] = {}
        for part in parts:
            if not part.gpus:
                continue
            for pin, mine in _by_pin(part, pinned).items():
                chain = self._layout.chain_of_pin(job.vc, pin) if pin else of_type[part.cell_type]
                pools.setdefault((pin or chain, chain), []).append(part.part(mine))
        return Unit(
            tuple(Pool(name, chain, tuple(mine)) for (name, chain), mine in pools.items()),
            tuple(part for part in parts if not part.gpus),
            tasks,
        )

    def _chains(self, job: Job, leaf_type: str) -> list[str]:
        """Chains to try for a SKU: those where the virtual cluster owns cells; all of them for a borrower."""
        chains = self._layout.chains_of(leaf_type)
        owned = [chain for chain in chains if self._layout.owned.get((job.vc, chain), 0)]
        return chains if job.opportunistic else owned or chains[:1] or [leaf_type]


def _by_pin(part: Demand, pinned: Mapping[str, str]) -> dict[str, tuple[TaskRef, ...]]:
    """The demand's tasks by the pinned cell (empty: none) that their role names."""
    found: dict[str, list[TaskRef]] = {}
    for task in part.tasks:
        found.setdefault(pinned.get(task.role, ""), []).append(task)
    return {pin: tuple(tasks) for pin, tasks in found.items()}


def candidates(layout: CellIndex, job: Job) -> list[str]:
    """SKUs to try, by name, for the roles that name none; one empty name when every role names its own.

    A guaranteed job may use what its virtual cluster owns, an opportunistic one all there is.
    """
    if not any(role.gpus and role.sku is None for role in job.roles):
        return [""]
    pins = {role.pinned_cell for role in job.roles if role.gpus and role.sku is None and role.pinned_cell}
    if pins:
        return sorted({layout.leaf_type.get(layout.chain_of_pin(job.vc, pin), "") for pin in pins})
    if job.opportunistic:
        return layout.leaf_types()
    return sorted(
        {layout.leaf_type[chain] for (vc, chain) in layout.owned if vc == job.vc and chain in layout.leaf_type}
    )


def _named(roles: tuple[Role, ...]) -> set[str]:
    return {role.sku for role in roles if role.gpus and role.sku is not None}


def apart(choices: Iterable[Choice], gang: bool) -> tuple[Choice, ...]:
    """The choices with what starts by itself (all of a gang, else equal tasks) as a choice of its own."""
    if gang:
        return tuple(choices)
    return tuple(Choice(choice.chains, (unit,)) for choice in choices for unit in choice.units)


def needs_of(choice: Choice, gang: bool) -> dict[str, int]:
    """GPUs by leaf type that the choice needs at least at once: all of a gang, else the smallest task."""
    unit = choice.units[0] if gang else choice.units[-1]
    needs: dict[str, int] = {}
    for pool in unit.pools:
        for part in pool.parts:
            count = part.count if gang else 1
            needs[part.cell_type] = needs.get(part.cell_type, 0) + part.gpus * count
    return needs

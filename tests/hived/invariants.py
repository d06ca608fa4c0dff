"""What holds after every step of every stream, whoever decides (the case files' description, "How to replay", 4)."""

import copyreg
from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

import scheduling
from scheduling import Engine
from scheduling.model.cell_tree import CellTree
from tests.hived.binding import Bindings, Grid, QuotaCell
from tests.hived.cases import Request
from tests.hived.world import World

HIGHEST = 1000


def as_it_is(value: object) -> str:
    """How `copy` is told not to copy."""
    return type(value).__name__


# To try what would be, a world is copied. Objects of compiled classes cannot be copied from outside: those that never
# change stay as they are; the others have ways of their own.
copyreg.pickle(Engine, lambda engine: (Engine, (engine.snapshot(),)))
copyreg.pickle(Bindings, lambda bindings: (bindings.copy, ()))
VALUES = (one for one in vars(scheduling).values() if isinstance(one, type) and is_dataclass(one))
UNCHANGING: list[type[Any]] = [Grid, CellTree, *VALUES]
for kind in UNCHANGING:
    copyreg.pickle(kind, as_it_is)


def broken(world: World) -> list[str]:
    """The invariants that do not hold."""
    return [*_double(world), *_outside(world), *_unsafe(world)]


def _double(world: World) -> list[str]:
    """No GPU is held twice, and none is claimed by two."""
    held: dict[str, list[str]] = {}
    for running in world.snapshot().running:
        for task in running.tasks:
            for use in task.placement.leaves:
                held.setdefault(use.leaf, []).append(running.job.id)
    claimed = [one.leaf for one in world.snapshot().claims]
    twice = [f"{leaf} is held by {names}" for leaf, names in held.items() if len(names) > 1]
    wrong = [
        f"{one.leaf} is claimed from {one.victim}, held by {held.get(one.leaf)}"
        for one in world.snapshot().claims
        if held.get(one.leaf, [None]) != [one.victim]
    ]
    return [*twice, *wrong, *([] if len(set(claimed)) == len(claimed) else ["a leaf is claimed twice"])]


def _outside(world: World) -> list[str]:
    """What is guaranteed lies in the virtual cluster's own cells, these are bound one to one, none overlap."""
    bindings = Bindings.of(world.snapshot(), world.grid)
    found = [f"{use.job} uses {use.leaf} as {use.virtual_cell}, which fits no binding" for use in bindings.broken]
    owners: dict[str, QuotaCell] = {}
    for cell, bound in bindings.bound.items():
        jobs = {use.job for use in bound.uses.values()}
        found += [f"{name} is in a cell of {cell.vc}" for name in jobs if _vc(world, name) != cell.vc]
        for leaf in bound.physical:
            if leaf in owners:
                found.append(f"{leaf} lies in {owners[leaf]} and in {cell}")
            owners[leaf] = cell
    return found


def _vc(world: World, group: str) -> str:
    jobs = {one.job.id: one.job for one in world.snapshot().running} | {one.id: one for one in world.snapshot().waiting}
    return jobs[group].vc


def _unsafe(world: World) -> list[str]:
    """What is owed at each level can be cut out of what is free."""
    return [f"safety is broken: {short}" for short in Bindings.of(world.snapshot(), world.grid).shortages()]


def cannot_have_its_own(world: World) -> list[str]:
    """The virtual clusters whose cells are all free and healthy and that cannot bind all of them, largest first."""
    bindings = Bindings.of(world.snapshot(), world.grid)
    if world.grid.bad:
        return []
    used = {cell.vc for cell in bindings.bound}
    return [vc for vc in world.grid.quota if vc not in used and not _binds_all(world, vc)]


def _binds_all(world: World, vc: str) -> bool:
    world = deepcopy(world)
    cells = sorted(world.grid.quota[vc], key=lambda cell: (-world.grid.size(cell), cell.number))
    return all(_binds(world, _request(world, cell, number)) for number, cell in enumerate(cells))


def _request(world: World, cell: QuotaCell, number: int) -> tuple[str, Request]:
    """A gang that fills a quota cell: a pod for each node in it."""
    leaves = world.grid.cells[cell.chain, cell.cell_type][0]
    nodes = len({world.node_of(leaf) for leaf in leaves})
    gpus = len(leaves) // nodes
    sku = world.cluster.leaf_types[leaves[0]]
    name = f"whole-{cell.vc}-{number}"
    return name, Request(cell.vc, HIGHEST, cell.pinned, sku, gpus, False, True, name, ((gpus, nodes),))


def _binds(world: World, asked: tuple[str, Request]) -> bool:
    name, request = asked
    world.requests[name] = request
    answer = world.decide(name, None)
    world.carry_out(name, answer, preempting=True)
    if answer.result == "preempt":
        for pod in sorted(world.pods_of(answer.victims)):
            world.delete(pod)
        answer = world.decide(name, None)
        world.carry_out(name, answer, preempting=True)
    world.add(name)
    return answer.result == "bind"


def all_broken(world: World) -> list[str]:
    """All of the above."""
    return [*broken(world), *(f"{vc} cannot have its own cells" for vc in cannot_have_its_own(world))]

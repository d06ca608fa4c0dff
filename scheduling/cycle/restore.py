"""Enters running jobs and claims into an empty allocator: after a restore, or when the cluster has changed."""

from collections.abc import Iterable, Mapping

from scheduling.cells.allocator import Allocator, PlacementConflict
from scheduling.cells.cell_index import CellIndex
from scheduling.cells.claims import Claims, needs_of, parked_in
from scheduling.cycle.cycle_state import lent
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement
from scheduling.model.plan import Demotion, Start
from scheduling.model.snapshot import Running
from scheduling.queue.queue import rank


def entered(
    layout: CellIndex, running: dict[str, Running], claims: Claims, waiting: Mapping[str, Job]
) -> tuple[Allocator, dict[str, Demotion]]:
    """The allocator with all of them, and the demotions: guaranteed jobs whose virtual cells are gone are on loan from
    now on, in `running` too. Where there are cells for some, those of higher priority and earlier submission keep
    theirs, non-preemptible ones before all others.
    """
    allocator, without_quota = Allocator(layout), dict[str, Demotion]()
    leaves = {claim.leaf for claim in claims.all()}
    virtual = {claim.virtual_cell for claim in claims.all()}
    for one in sorted(running.values(), key=lambda one: (one.job.preemptible, *rank(one.job))):
        name = one.job.id
        if not _allocate_all(allocator, name, [without(task.placement, leaves, virtual) for task in one.tasks]):
            without_quota[name] = Demotion(name, "quota")
            running[name] = lent(one)
            for task in running[name].tasks:
                allocator.allocate(name, task.placement)
    _claim_all(allocator, claims, waiting)
    return allocator, without_quota


def check_start(start: Start, running: Running | None, claims: Claims) -> None:
    """Raises PlacementConflict where a task of it runs already, or a leaf is another's claim."""
    name = start.job.id
    placed = {task.placement.task for task in running.tasks} if running else set()
    for placement in start.placements if placed or claims.by_claimant else ():
        if placement.task in placed:
            raise PlacementConflict(f"{name}/{placement.task.role}/{placement.task.index}")
        for use in placement.leaves:
            claimant = claims.claimant(use.leaf)
            if claimant not in (None, name) and not claims.of(claimant)[use.leaf].parked:
                raise PlacementConflict(use.leaf)


def _allocate_all(allocator: Allocator, job: str, placements: Iterable[TaskPlacement]) -> bool:
    """Enters all tasks of a job with their virtual cells, or none of them where these are not to be had."""
    layout = allocator.layout
    try:
        with allocator.transaction():
            for placement in placements:
                gone = any(
                    use.virtual_cell is not None and layout.virtual_leaf(use.virtual_cell) is None
                    for use in placement.leaves
                    if use.leaf in layout.leaf_at
                )
                if gone:
                    raise PlacementConflict(placement.node)
                allocator.allocate(job, placement)
    except PlacementConflict:
        return False
    return True


def _claim_all(allocator: Allocator, claims: Claims, waiting: Mapping[str, Job]) -> None:
    """Enters each claim, with its virtual leaf where that is to be had."""
    for claimant in sorted(claims):
        needs = needs_of(waiting.get(claimant), claims.of(claimant).values())
        for leaf, claim in claims.of(claimant).items():
            mine, parked = {leaf: needs[leaf]} if leaf in needs else {}, parked_in([claim])
            try:
                with allocator.transaction():
                    allocator.claim(claimant, [LeafUse(leaf, claim.virtual_cell, Standing.GUARANTEED)], mine, parked)
            except PlacementConflict:
                allocator.claim(claimant, [LeafUse(leaf, None, Standing.GUARANTEED)], mine, parked)


def without(placement: TaskPlacement, leaves: set[str], virtual: set[str]) -> TaskPlacement:
    """The place of a task without the virtual cells that others have claimed."""
    if not leaves:
        return placement
    uses = tuple(
        LeafUse(use.leaf, None, Standing.BORROWED) if use.leaf in leaves or use.virtual_cell in virtual else use
        for use in placement.leaves
    )
    return placement._replace(leaves=uses)

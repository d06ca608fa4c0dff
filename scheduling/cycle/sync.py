"""Brings the engine to the next snapshot by what differs: between two ticks few jobs of many have changed."""

from collections.abc import Iterable

from scheduling.cells.allocator import Allocator, PlacementConflict
from scheduling.cells.claims import needs_of, parked_in
from scheduling.cycle.restore import without
from scheduling.model.job import LeafUse, Standing
from scheduling.model.snapshot import Claim, Running, RunningTask, Snapshot
from scheduling.preemption.victim_cost import give_back
from scheduling.queue.job_index import JobIndex


def caught_up(job_index: JobIndex, allocator: Allocator, snapshot: Snapshot) -> bool:
    """Brings both to the snapshot. False where jobs or claims contradict each other, so that somebody has to give way:
    then both are to be made anew. Rows that are the same objects as before cost next to nothing."""
    try:
        _claims_give_up(job_index, allocator, snapshot)
        _running_follow(job_index, allocator, snapshot)
        _waiting_follow(job_index, snapshot)
        _claims_take(job_index, allocator, snapshot)
    except PlacementConflict:
        return False
    job_index.demotions = {one.job: one for one in snapshot.demotions}
    job_index.freed = snapshot.freed
    job_index.usage_history.begin(snapshot.usage)
    return True


# Who runs and who waits


def _running_follow(job_index: JobIndex, allocator: Allocator, snapshot: Snapshot) -> None:
    running = {one.job.id: one for one in snapshot.running}
    gone = [Running(one.job, ()) for name, one in job_index.running.items() if name not in running]
    changed = [one for name, one in running.items() if job_index.running.get(name) is not one]
    _places_follow(job_index, allocator, gone + changed)
    for one in gone + changed:
        job_index.set_running(one)


def _places_follow(job_index: JobIndex, allocator: Allocator, changed: Iterable[Running]) -> None:
    """Releases those that are gone before it enters others, which may be where they were."""
    leaves = {claim.leaf for claim in job_index.claims.all()}
    virtual = {claim.virtual_cell for claim in job_index.claims.all()}
    come: list[tuple[str, RunningTask]] = []
    for one in changed:
        name, known = one.job.id, job_index.running.get(one.job.id)
        before = {task.placement for task in known.tasks} if known else set()
        stay = before & {task.placement for task in one.tasks}
        for placement in sorted(before - stay, key=lambda place: place.task):
            allocator.release(name, placement)
        come += [(name, task) for task in one.tasks if task.placement not in stay]
    for name, task in come:
        allocator.allocate(name, without(task.placement, leaves, virtual))


def _waiting_follow(job_index: JobIndex, snapshot: Snapshot) -> None:
    waiting = {job.id: job for job in snapshot.waiting}
    for name in job_index.waiting.keys() - waiting.keys():
        job_index.leave_queue(name)
    for name, job in waiting.items():
        if job_index.waiting.get(name) is not job:
            job_index.enqueue(job)


# Claims


def _claims_give_up(job_index: JobIndex, allocator: Allocator, snapshot: Snapshot) -> None:
    """Drops claims that are gone or have changed; their victims have their virtual cells again."""
    after = {claim.leaf: _right(claim) for claim in snapshot.claims}
    gone = [claim for claim in job_index.claims.all() if after.get(claim.leaf) != _right(claim)]
    for claim in gone:
        job_index.claims.drop(claim.leaf)
        allocator.unclaim(claim.claimant, [claim.leaf])
        job_index.rank(claim.claimant)
    give_back(allocator, job_index.running, gone)


def _claims_take(job_index: JobIndex, allocator: Allocator, snapshot: Snapshot) -> None:
    new: dict[str, list[LeafUse]] = {}
    for claim in snapshot.claims:
        if job_index.claims.claimant(claim.leaf) is None:
            use = LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED)
            new.setdefault(claim.claimant, []).append(use)
        job_index.claims.add(claim)
    for uses in new.values():
        allocator.make_way(uses)
    for name, uses in new.items():
        mine = job_index.claims.of(name).values()
        allocator.claim(name, uses, needs_of(job_index.waiting.get(name), mine), parked_in(mine))
        job_index.rank(name)


def _right(claim: Claim) -> tuple[object, ...]:
    """All of a claim but its victim, which the allocator does not know."""
    return claim.claimant, claim.virtual_cell, claim.task, claim.parked

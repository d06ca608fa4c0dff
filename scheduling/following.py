"""An engine brought to the next snapshot by what differs: between two ticks few jobs of many have changed."""

from collections.abc import Iterable

from scheduling.claims import needs_of
from scheduling.entering import without
from scheduling.jobs import LeafUse, Standing
from scheduling.ledger import Ledger, PlacementConflict
from scheduling.preemption import give_back
from scheduling.roster import Roster
from scheduling.snapshot import Claim, Running, RunningTask, Snapshot


def caught_up(roster: Roster, ledger: Ledger, snapshot: Snapshot) -> bool:
    """Make both what they are in the snapshot. False where what runs or claims does not go together, so that somebody
    has to give way: then they are to be made anew. Rows that are the objects they were cost next to nothing."""
    try:
        _claims_give_up(roster, ledger, snapshot)
        _running_follow(roster, ledger, snapshot)
        _waiting_follow(roster, snapshot)
        _claims_take(roster, ledger, snapshot)
    except PlacementConflict:
        return False
    roster.demotions = {one.job: one for one in snapshot.demotions}
    roster.freed = snapshot.freed
    roster.book.begin(snapshot.usage)
    return True


# Who runs and who waits


def _running_follow(roster: Roster, ledger: Ledger, snapshot: Snapshot) -> None:
    running = {one.job.id: one for one in snapshot.running}
    gone = [Running(one.job, ()) for name, one in roster.running.items() if name not in running]
    changed = [one for name, one in running.items() if roster.running.get(name) is not one]
    _places_follow(roster, ledger, gone + changed)
    for one in gone + changed:
        roster.set_running(one)


def _places_follow(roster: Roster, ledger: Ledger, changed: Iterable[Running]) -> None:
    """First all leave who go, since others may come where they were."""
    leaves = {claim.leaf for claim in roster.claims.all()}
    virtual = {claim.virtual_cell for claim in roster.claims.all()}
    come: list[tuple[str, RunningTask]] = []
    for one in changed:
        name, known = one.job.id, roster.running.get(one.job.id)
        before = {task.placement for task in known.tasks} if known else set()
        stay = before & {task.placement for task in one.tasks}
        for placement in sorted(before - stay, key=lambda place: place.task):
            ledger.release(name, placement)
        come += [(name, task) for task in one.tasks if task.placement not in stay]
    for name, task in come:
        ledger.hold(name, without(task.placement, leaves, virtual))


def _waiting_follow(roster: Roster, snapshot: Snapshot) -> None:
    waiting = {job.id: job for job in snapshot.waiting}
    for name in roster.waiting.keys() - waiting.keys():
        roster.leave_queue(name)
    for name, job in waiting.items():
        if roster.waiting.get(name) is not job:
            roster.enqueue(job)


# Claims


def _claims_give_up(roster: Roster, ledger: Ledger, snapshot: Snapshot) -> None:
    """Those that are no more, or are for another task or virtual cell; their victims have theirs again."""
    after = {claim.leaf: _right(claim) for claim in snapshot.claims}
    gone = [claim for claim in roster.claims.all() if after.get(claim.leaf) != _right(claim)]
    for claim in gone:
        roster.claims.drop(claim.leaf)
        ledger.unclaim(claim.claimant, [claim.leaf])
        roster.rank(claim.claimant)
    give_back(ledger, roster.running, gone)


def _claims_take(roster: Roster, ledger: Ledger, snapshot: Snapshot) -> None:
    new: dict[str, list[LeafUse]] = {}
    for claim in snapshot.claims:
        if roster.claims.claimant(claim.leaf) is None:
            use = LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED)
            new.setdefault(claim.claimant, []).append(use)
        roster.claims.add(claim)
    for uses in new.values():
        ledger.make_way(uses)
    for name, uses in new.items():
        ledger.claim(name, uses, needs_of(roster.waiting.get(name), roster.claims.of(name).values()))
        roster.rank(name)


def _right(claim: Claim) -> tuple[object, ...]:
    """All of a claim but its victim, which the ledger does not know."""
    return claim.claimant, claim.virtual_cell, claim.task

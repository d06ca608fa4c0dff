"""What the engine keeps, checked against its snapshot by ways of its own."""

from collections import Counter
from copy import deepcopy

from scheduling import Engine, Plan, Snapshot, Standing


def state_of(made: Engine) -> dict[str, object]:
    """All that the allocator counts, but for how often something was given back; copies, for it goes on counting."""
    allocator = made._allocator
    tasks = [
        {key: ([use.leaf for use in one.leaves], one.cpu_milli, one.memory_mb) for key, one in here.items()}
        for here in allocator.tasks
    ]
    loans = made._job_index.loans
    on_loan = {vc: {one: amount for one, amount in held.items() if amount} for vc, held in loans.shares._held.items()}
    lent = {of: count for of, count in loans.by_vc.items() if count}
    return {"tasks": tasks, "on_loan": {vc: held for vc, held in on_loan.items() if held}, "lent_to": lent} | {
        name: deepcopy(getattr(allocator, name))
        for name in (
            "healthy", "open_nodes", "busy", "lent", "claimed", "bound", "leaves_by_job", "cpu", "memory", "used",
            "owners", "pairs", "home", "place", "leaves_used", "virtual_of", "bound_nodes", "free_leaves", "groups",
            "holes", "cell_groups", "slack",
        )
    }  # fmt: skip


def check_amounts(state: Snapshot) -> None:
    """No GPU, virtual cell or task twice; CPU and memory of no node oversubscribed; no quota exceeded."""
    placements = [task.placement for one in state.running for task in one.tasks]
    leaves = Counter(use.leaf for one in placements for use in one.leaves)
    cells = Counter(use.virtual_cell for one in placements for use in one.leaves if use.virtual_cell)
    claims = {claim.virtual_cell for claim in state.claims}
    assert not [leaf for leaf, count in leaves.items() if count > 1]
    assert not [cell for cell, count in cells.items() if count > 1]
    going = {(one.job.id, task.placement.task) for one in state.running for task in one.tasks if task.leaving}
    for one in state.running:
        assert len({task.placement.task for task in one.tasks}) == len(one.tasks)
        for task in one.tasks:
            role = one.job.role(task.placement.role)
            assert len(task.placement.leaves) == role.gpus
            assert (task.placement.cpu_milli, task.placement.memory_mb) == (role.cpu_milli, role.memory_mb)
            for use in task.placement.leaves:
                assert (use.virtual_cell is None) == (use.standing is Standing.BORROWED)
                if use.virtual_cell in claims:
                    assert (one.job.id, task.placement.task) in going
    for node in state.cluster.nodes:
        here = [one for one in placements if one.node == node.id]
        assert sum(one.cpu_milli for one in here) <= node.cpu_milli
        assert sum(one.memory_mb for one in here) <= node.memory_mb
        own = {leaf.id for leaf in node.leaves}
        assert all(use.leaf in own for one in here for use in one.leaves)


def check_told(made: Engine, plan: Plan) -> None:
    """Every waiting job starts whole, or has exactly one reason."""
    waits = [wait.job.id for wait in plan.waits]
    whole = {start.job.id for start in plan.starts if len(start.placements) == len(start.job.wanted)}
    assert len(waits) == len(set(waits))
    started = {start.job.id for start in plan.starts}
    waiting = {one.id for one in made.snapshot().waiting if not all(map(one.is_extra, one.wanted))}
    assert waiting - started <= set(waits) <= waiting
    assert not whole & set(waits)

"""Every reason is true: its obstacle blocks the job where those after it are gone, its numbers are the snapshot's."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduling import Code, Engine, Job, Plan, Preempt, Snapshot, Standing, Start, TaskPlacement, Wait
from scheduling.cells.cell_index import CellIndex
from scheduling.model.description import NodeState, Rules
from tests.unit.scheduling.cellworlds import ANY, GREEDY, World, clusters, damaged, worlds
from tests.unit.scheduling.playing import Player
from tests.unit.scheduling.worlds import all_in_service, with_plenty


def alone_in(state: Snapshot, job: Job, now: int) -> Start | Preempt | Wait:
    """What becomes of the job in this state whoever else waits."""
    others = tuple(one for one in state.waiting if one.id == job.id)
    return Engine.restore(replace(state, waiting=others)).decide(job, now)


def held(state: Snapshot, vc: str, chain: str) -> int:
    """Virtual leaves of a virtual cluster in a chain that somebody holds or claims."""
    layout = CellIndex(state.cluster)
    cells = {claim.virtual_cell for claim in state.claims}
    cells |= {use.virtual_cell or "" for one in state.running for task in one.tasks for use in task.placement.leaves}
    found = [layout.virtual_leaf(cell) for cell in cells if cell.startswith(f"{vc}/")]
    quotas = [layout.quotas[layout.cell_quota[one[0]]] for one in found if one is not None]
    return sum(quota.chain == chain for quota in quotas)


def lent(state: Snapshot, kind: str, vc: str | None = None) -> int:
    """GPUs of a type on loan, to one virtual cluster or all."""
    return sum(
        use.standing is Standing.BORROWED and state.cluster.leaf_types[use.leaf] == kind
        for one in state.running
        if vc in (None, one.job.vc)
        for task in one.tasks
        for use in task.placement.leaves
    )


def check_quota(state: Snapshot, plan: Plan, wait: Wait) -> None:
    numbers, vc = wait.reason.numbers, wait.job.vc
    best = with_plenty(all_in_service(state))
    assert isinstance(alone_in(best, wait.job, plan.at_ms), Wait)
    if "sku" not in numbers:
        assert numbers["owned"] == 0
        return
    owned = CellIndex(state.cluster).owned.get((vc, str(numbers["sku"])), 0)
    if next(one.pinned for one in state.cluster.virtual_clusters if one.id == vc):
        return  # what is pinned and what is not are counted each by itself
    if "held" not in numbers and "free" not in numbers:
        assert numbers["owned"] == owned
        assert int(numbers["needed"]) > int(numbers.get("whole", owned))
        nobody = replace(best, running=(), claims=(), demotions=())
        assert isinstance(alone_in(nobody, wait.job, plan.at_ms), Wait)
        return
    if "held" in numbers:
        assert (numbers["held"], numbers["owned"]) == (held(state, vc, str(numbers["sku"])), owned)
        assert int(numbers["held"]) + int(numbers["needed"]) > owned
    else:
        assert numbers["free"] == owned - held(state, vc, str(numbers["sku"]))
        assert int(numbers["needed"]) <= int(numbers["free"])


def check_order(state: Snapshot, plan: Plan, wait: Wait) -> None:
    numbers = wait.reason.numbers
    if "owed" in numbers:
        assert 0 < int(numbers["owed"]) <= int(numbers["free"]) + int(numbers.get("below", 0))
        if not next(one.pinned for one in state.cluster.virtual_clusters if one.id == wait.job.vc):
            owned = CellIndex(state.cluster).owned.get((wait.job.vc, str(numbers["sku"])), 0)
            assert numbers["free"] == owned - held(state, wait.job.vc, str(numbers["sku"]))
        return
    before = [one for one in plan.waits if one.job.vc == wait.job.vc and one.job.id != wait.job.id]
    mine = [one for one in state.running if one.job.vc == wait.job.vc and not one.job.opportunistic]
    on_loan = [
        one
        for one in mine
        if any(not use.virtual_cell for task in one.tasks for use in task.placement.leaves)
        and one.job.id not in {wait.job.id, *(other.job.id for other in before)}
    ]
    assert 0 < int(numbers["ahead"]) <= len(before) + len(on_loan)
    whys = ("by_priority", "by_share", "by_submission", "by_kept")
    assert numbers["ahead"] == sum(int(numbers.get(key, 0)) for key in whys)
    # Only who comes later by share and submission is ahead since cells are kept.
    assert int(numbers.get("by_kept", 0)) <= len(plan.reservations)
    higher = [one for one in before if one.job.priority > wait.job.priority]
    assert int(numbers["by_priority"]) <= len(higher) + len(on_loan)


def check_reserved(state: Snapshot, plan: Plan, wait: Wait) -> None:
    holder = next(one.job for one in plan.waits if one.job.id == wait.reason.numbers["job"])
    assert (holder.vc, holder.id in plan.reservations) == (wait.job.vc, True)
    assert holder.priority >= wait.job.priority
    assert int(wait.reason.numbers["at_ms"]) >= plan.at_ms


def check_lend_limit(state: Snapshot, plan: Plan, wait: Wait) -> None:
    numbers, layout = wait.reason.numbers, CellIndex(state.cluster)
    kind = str(numbers["sku"])
    chains = layout.chains_of(kind)
    there = sum(one == kind for one in state.cluster.leaf_types.values())
    most = there
    for vc in state.cluster.virtual_clusters:
        owned = sum(layout.owned.get((vc.id, chain), 0) for chain in chains)
        idle = owned - sum(held(state, vc.id, chain) for chain in chains)
        most += min(idle, vc.rules.max_lend.get(kind, there)) - owned
    assert (numbers["lent"], numbers["limit"]) == (lent(state, kind), most)
    assert int(numbers["lent"]) + int(numbers["needed"]) > most


def check_borrow_limit(state: Snapshot, plan: Plan, wait: Wait) -> None:
    numbers = wait.reason.numbers
    kind, vc = str(numbers["sku"]), wait.job.vc
    rules = next(one.rules for one in state.cluster.virtual_clusters if one.id == vc)
    assert (numbers["held"], numbers["limit"]) == (lent(state, kind, vc), rules.max_borrow[kind])
    assert int(numbers["held"]) + int(numbers["needed"]) > int(numbers["limit"])


def check_fragmented(state: Snapshot, plan: Plan, wait: Wait) -> None:
    assert isinstance(alone_in(with_plenty(all_in_service(state)), wait.job, plan.at_ms), Wait)
    numbers = wait.reason.numbers
    if not numbers.get("needed"):
        return
    room = free_gpus(state, wait.job, str(numbers["sku"]))
    assert (numbers["largest"], numbers["free"]) == (max(room.values(), default=0), sum(room.values()))
    assert room.get(str(numbers["node"]), 0) == numbers["largest"]


def free_gpus(state: Snapshot, job: Job, sku: str) -> dict[str, int]:
    """By node the GPUs in service that a job may have: those that nobody holds or claims; of a guaranteed one those on
    loan as well."""
    uses = [use for one in state.running for task in one.tasks for use in task.placement.leaves]
    taken = {use.leaf for use in uses if use.virtual_cell is not None or job.opportunistic}
    taken |= {claim.leaf for claim in state.claims}
    return {
        node.id: sum(leaf.healthy and leaf.id not in taken for leaf in node.leaves)
        for node in state.cluster.nodes
        if node.cell_type == sku and node.state == NodeState.OPEN and node.id not in job.avoid_nodes
    }


def check_bad_nodes(state: Snapshot, plan: Plan, wait: Wait) -> None:
    assert isinstance(alone_in(with_plenty(state), wait.job, plan.at_ms), Wait)
    assert not isinstance(alone_in(with_plenty(all_in_service(state)), wait.job, plan.at_ms), Wait)
    numbers = wait.reason.numbers
    bad = [
        one
        for one in state.cluster.nodes
        if one.state != NodeState.OPEN or not all(leaf.healthy for leaf in one.leaves)
    ]
    assert str(numbers["where"]).split(" (")[0] in {one.id for one in bad}
    if numbers.get("needed"):
        sku = str(numbers["sku"])
        best = sum(free_gpus(all_in_service(state), wait.job, sku).values())
        free = sum(free_gpus(state, wait.job, sku).values())
        assert (numbers["free"], numbers["unusable"]) == (free, best - free)


def check_resources(state: Snapshot, plan: Plan, wait: Wait) -> None:
    assert isinstance(alone_in(state, wait.job, plan.at_ms), Wait)
    assert not isinstance(alone_in(with_plenty(state), wait.job, plan.at_ms), Wait)
    numbers = wait.reason.numbers
    node = next(one for one in state.cluster.nodes if one.id == numbers["node"])
    there = on_node(state, node.id)
    free = (
        node.cpu_milli - sum(one.cpu_milli for _, one in there),
        node.memory_mb - sum(one.memory_mb for _, one in there),
    )
    told = [int(numbers[f"free_{one}"]) + int(numbers.get(f"kept_{one}", 0)) for one in ("cpu_milli", "memory_mb")]
    leaves = {leaf.id for leaf in node.leaves}
    if any(claim.leaf in leaves for claim in state.claims):
        assert all(one <= max(0, other) for one, other in zip(told, free, strict=True))
    else:
        assert told == [max(0, one) for one in free]
    amounts = [(role.cpu_milli, role.memory_mb) for role in wait.job.roles]
    assert (numbers["cpu_milli"], numbers["memory_mb"]) in amounts
    if "job" in numbers:
        mine = [one for name, one in there if name == numbers["job"]]
        cpu, memory = node.cpu_milli // max(1, len(leaves)), node.memory_mb // max(1, len(leaves))
        assert numbers["beyond_cpu_milli"] == sum(max(0, one.cpu_milli - cpu * len(one.leaves)) for one in mine)
        assert numbers["beyond_memory_mb"] == sum(max(0, one.memory_mb - memory * len(one.leaves)) for one in mine)
        assert int(numbers["beyond_cpu_milli"]) + int(numbers["beyond_memory_mb"]) > 0


def on_node(state: Snapshot, node: str) -> list[tuple[str, TaskPlacement]]:
    """The tasks that run on a node, each with its job."""
    return [(one.job.id, task.placement) for one in state.running for task in one.tasks if task.placement.node == node]


def check_user_limit(state: Snapshot, plan: Plan, wait: Wait) -> None:
    numbers, vc = wait.reason.numbers, wait.job.vc
    rules = next(one.rules for one in state.cluster.virtual_clusters if one.id == vc)
    jobs = {one.job.id: one.job for one in state.running} | {one.id: one for one in state.waiting}
    lowest = int(numbers.get("priority", 0))

    def counts(job: Job) -> bool:
        same = job.user == wait.job.user if "user" in numbers else job.priority >= lowest
        return job.vc == vc and not job.opportunistic and same

    every = [(one.job, task.placement) for one in state.running if counts(one.job) for task in one.tasks]
    held = sum(len(place.leaves) for job, place in every if not job.is_extra(place.task))
    held += sum(counts(jobs[claim.claimant]) for claim in state.claims)
    assert (numbers["held"], numbers["limit"]) == (held, rules.user_gpus if "user" in numbers else rules.class_gpus)
    assert held + int(numbers["needed"]) > int(numbers["limit"])
    again = alone_in(with_plenty(all_in_service(state)), wait.job, plan.at_ms)
    assert isinstance(again, Wait)
    assert again.reason.code == Code.USER_LIMIT


def check_preempting(state: Snapshot, plan: Plan, wait: Wait) -> None:
    claims = [claim for claim in state.claims if claim.claimant == wait.job.id]
    victims = [claim.victim for claim in claims if claim.victim is not None]
    numbers = wait.reason.numbers
    assert numbers["gpus"] == len(victims)
    leaving = {one.job.id: one for one in state.running if any(task.leaving for task in one.tasks)}
    assert numbers["first"] in leaving
    if victims:
        assert numbers["jobs"] == len(set(victims))
        assert set(victims) <= leaving.keys()
        return
    cells = {claim.virtual_cell for claim in claims}
    uses = [use for task in leaving[str(numbers["first"])].tasks for use in task.placement.leaves]
    if "resources" not in numbers:
        assert any(use.virtual_cell in cells for use in uses)


def check_paused(state: Snapshot, plan: Plan, wait: Wait) -> None:
    assert wait.job.paused


def check_dependency(state: Snapshot, plan: Plan, wait: Wait) -> None:
    assert not wait.job.paused
    assert wait.reason.numbers["jobs"] == len(wait.job.after) > 0


CHECKS: dict[Code, Callable[[Snapshot, Plan, Wait], None]] = {
    Code.QUOTA: check_quota,
    Code.ORDER: check_order,
    Code.RESERVED: check_reserved,
    Code.LEND_LIMIT: check_lend_limit,
    Code.BORROW_LIMIT: check_borrow_limit,
    Code.FRAGMENTED: check_fragmented,
    Code.BAD_NODES: check_bad_nodes,
    Code.RESOURCES: check_resources,
    Code.USER_LIMIT: check_user_limit,
    Code.PREEMPTING: check_preempting,
    Code.PAUSED: check_paused,
    Code.DEPENDENCY: check_dependency,
}


class Watch:
    """Checks the reasons of moments at rest, in which a pass has changed nothing: nothing may be left to do then. Who
    waits for victims to leave is told so at any moment."""

    def __init__(self) -> None:
        self._reservations: tuple[str, ...] = ()

    def __call__(self, made: Engine, carried_out: Plan) -> None:
        plan, state = made.plan(carried_out.at_ms), made.snapshot()
        at_rest = not changes(carried_out) and carried_out.reservations == self._reservations
        self._reservations = carried_out.reservations
        if at_rest:
            assert not changes(plan)
        claimants = {claim.claimant for claim in state.claims}
        for wait in plan.waits:
            preempting = wait.reason.code == Code.PREEMPTING and wait.job.id in claimants
            if at_rest or (preempting and not plan.answers):
                CHECKS[wait.reason.code](state, plan, wait)


def changes(plan: Plan) -> bool:
    """Whether anybody starts, leaves or changes standing; a reservation may move without."""
    return bool(plan.answers or plan.promotions or plan.demotions or plan.releases)


def limited(world: World) -> World:
    """The same world where each team lends and borrows few GPUs."""
    kinds = set(world.cluster.leaf_types.values())
    rules = Rules(max_lend=dict.fromkeys(kinds, 2), max_borrow=dict.fromkeys(kinds, 3))
    teams = tuple(replace(vc, rules=rules) for vc in world.cluster.virtual_clusters)
    return replace(world, cluster=replace(world.cluster, virtual_clusters=teams))


def capped(world: World) -> World:
    """The same world where a user, and the jobs of a high priority, may hold few GPUs; some jobs are paused, some wait
    for the first one."""
    rules = Rules(user_gpus=3, class_priority=6, class_gpus=2)
    teams = tuple(replace(vc, rules=rules) for vc in world.cluster.virtual_clusters)
    first = world.arrivals[0][1].id if world.arrivals else ""
    arrivals = []
    for number, (at, job) in enumerate(world.arrivals):
        after = (first,) if number % 5 == 3 else ()
        arrivals.append((at, job._replace(paused=number % 7 == 5, after=after)))
    return replace(world, cluster=replace(world.cluster, virtual_clusters=teams), arrivals=tuple(arrivals))


def check_reasons(world: World) -> None:
    for one in (world, limited(world), capped(world)):
        Player(Engine(one.cluster), one.lasts, Watch()).play(one.arrivals)


@settings(max_examples=40)
@given(worlds(ANY, damaged()))
def test_every_reason_is_true(world: World) -> None:
    check_reasons(world)


@settings(max_examples=60)
@given(worlds(GREEDY, clusters()))
def test_every_number_and_name_is_that_of_the_snapshot_where_jobs_want_more_than_their_shares(world: World) -> None:
    check_reasons(world)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
@given(worlds(replace(ANY, most=20), damaged()))
def test_every_reason_is_true_in_thousands_of_worlds(world: World) -> None:
    check_reasons(world)

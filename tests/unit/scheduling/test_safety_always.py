"""Safety: a guaranteed job that fits free, healthy virtual cells gets physical ones in the same plan."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling import CellType, Cluster, Engine, Job, NodeState, Preempt, QuotaLine, Start, VirtualCluster
from scheduling.cells.cell_index import CellIndex
from tests.unit.scheduling.builders import job, node, role
from tests.unit.scheduling.cellworlds import ANY, World, worlds
from tests.unit.scheduling.playing import Player

STATES = st.sampled_from([NodeState.OPEN, NodeState.OPEN, *NodeState])


@st.composite
def whole_nodes(draw: st.DrawFn) -> tuple[Cluster, list[Job], Job]:
    """Quotas of whole nodes, some of which are out of service; jobs that run, and one that asks."""
    states = draw(st.lists(STATES, min_size=1, max_size=6))
    nodes = tuple(node(f"n{number}", 2, shape="box", state=state) for number, state in enumerate(states))
    mine = draw(st.integers(1, len(nodes)))
    teams = (
        VirtualCluster("mine", (QuotaLine("box", mine),)),
        VirtualCluster("theirs", (QuotaLine("box", len(nodes) - mine),)),
    )
    described = Cluster(nodes, teams, cell_types=(CellType("box", "A100", 2, node_level=True),))
    running = [
        job(
            f"r{number}", role(gpus=draw(st.integers(1, 2))), vc=draw(st.sampled_from(["mine", "theirs"])),
            priority=draw(st.sampled_from([-1, -1, 10])), order=number,
        )
        for number in range(draw(st.integers(0, 8)))
    ]  # fmt: skip
    return described, running, job("asks", role(count=draw(st.integers(1, mine)), gpus=2), vc="mine", order=99)


@settings(max_examples=150)
@given(whole_nodes())
def test_whole_nodes_are_had_exactly_when_as_many_virtual_and_sound_free_ones_are_there(
    world: tuple[Cluster, list[Job], Job],
) -> None:
    described, jobs, asks = world
    made = Engine(described)
    for one in jobs:
        if one.vc == "mine" or described.virtual_clusters[1].quota[0].count or one.opportunistic:
            made.submit(one)
    made.advance(0)
    bound = {
        (use.virtual_cell.rsplit("/", 1)[0], task.placement.node)
        for one in made.snapshot().running
        for task in one.tasks
        for use in task.placement.leaves
        if use.virtual_cell is not None
    }
    sound = sum(one.state is NodeState.OPEN for one in described.nodes) - len({at for _, at in bound})
    virtual = described.virtual_clusters[0].quota[0].count - sum(cell.startswith("mine/") for cell, _ in bound)
    answer = made.decide(asks, 1)
    assert isinstance(answer, Start | Preempt) == (asks.roles[0].count <= min(sound, virtual))


def check_safety(world: World) -> None:
    """Of every state that is reached: each team can have all its free cells at once, the largest first."""

    def watch(made: Engine, _: object) -> None:
        for vc in made.snapshot().cluster.virtual_clusters:
            for asked in of_free_cells(made, vc):
                assert isinstance(made.decide(asked, 999), Start | Preempt)

    Player(Engine(world.cluster), world.lasts, watch).play(world.arrivals)


def of_free_cells(made: Engine, vc: VirtualCluster) -> list[Job]:
    """For each chain a gang that needs all free cells of the team's quota lines."""
    layout, used = CellIndex(made.snapshot().cluster), cells_in_use(made)
    found = []
    for chain in sorted({chain for owner, chain in layout.quotas_of if owner == vc.id}):
        roles = []
        for number in layout.quotas_of[vc.id, chain]:
            quota = layout.quotas[number]
            if quota.loose:
                free = quota.leaves - sum(cell.rsplit("/", 1)[0] == quota.address for cell in used)
                roles.append(replace(role(f"q{number}", free, 1), sku=layout.leaf_type[chain]))
            elif not any(cell.rsplit("/", 1)[0] == quota.address for cell in used):
                roles.append(replace(role(f"q{number}", quota.count, quota.shape.width), sku=layout.leaf_type[chain]))
        roles = [replace(one, cpu_milli=0, memory_mb=1) for one in roles if one.count]
        if roles:
            found.append(job("all", *roles, vc=vc.id, priority=0))
    return found


def cells_in_use(made: Engine) -> set[str]:
    """Virtual leaves that are held or claimed."""
    state = made.snapshot()
    held = {use.virtual_cell for one in state.running for task in one.tasks for use in task.placement.leaves}
    return {cell for cell in held | {claim.virtual_cell for claim in state.claims} if cell}


@settings(max_examples=40)
@given(worlds(ANY))
def test_each_team_can_have_all_its_free_cells_at_once_at_any_moment(world: World) -> None:
    check_safety(world)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
@given(worlds(replace(ANY, most=20)))
def test_the_same_holds_in_thousands_of_worlds(world: World) -> None:
    check_safety(world)

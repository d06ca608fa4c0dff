"""Doomed cells: quota that would have to lie on bad hardware if it were wanted now, and that a reason says so."""

from hypothesis import HealthCheck, given, settings

from scheduling import Engine, NodeState, Plan
from scheduling.health import Doomed, doomed, doomed_in
from tests.scheduling.builders import cluster, engine, job, node, role, running, wait_of
from tests.scheduling.cellworlds import ANY, World, damaged, worlds
from tests.scheduling.playing import Player

DOWN = NodeState.DOWN


def doomed_of(made: Engine) -> list[tuple[str, int]]:
    return [(one.vc, one.cells) for one in doomed(made.snapshot())]


def test_a_cell_is_doomed_when_its_team_alone_could_not_be_served() -> None:
    made = engine(cluster(node("a", 2), node("b", 2), vision=2, speech=2))
    assert doomed_of(made) == []
    made.set_node(node("b", 2, state=DOWN))
    assert doomed_of(made) == []
    made.submit(job("first", role(gpus=2)))
    made.advance(0)
    assert doomed_of(made) == [("speech", 2)]
    made.finish("first")
    assert doomed_of(made) == []


def test_a_faulty_gpu_dooms_one_cell_and_a_cordoned_node_none() -> None:
    assert doomed_of(engine(cluster(node("a", 2, sick=(1,)), vision=2))) == [("vision", 1)]
    assert doomed_of(engine(cluster(node("a", 2, state=NodeState.CORDONED), vision=2))) == []


def test_cells_in_use_are_not_doomed_whatever_becomes_of_their_node() -> None:
    made = running(cluster(node("a", 2), vision=2), job("runs", role(gpus=2)))
    made.set_node(node("a", 2, state=DOWN))
    assert doomed(made.snapshot()) == ()


def test_who_waits_for_doomed_cells_is_told_so() -> None:
    described = cluster(node("gpu01", 2, state=DOWN), vision=2)
    reason = wait_of(engine(described, job("j", role(gpus=2))).plan(0), "j").reason
    assert (reason.numbers["doomed"], reason.numbers["doomed_type"]) == (2, "A100")
    assert reason.sentence.endswith("gpu01 (down); 2 free A100 of team vision's quota could only lie there")


def watch(made: Engine, plan: Plan) -> None:
    found = [
        Doomed(vc.id, chain, cell_type, cells)
        for vc in made.snapshot().cluster.virtual_clusters
        for chain in sorted({owned for owner, owned in made._ledger.layout.quotas_of if owner == vc.id})
        for cell_type, cells in doomed_in(made._ledger, vc.id, chain).items()
    ]
    assert tuple(sorted(found)) == doomed(made.snapshot())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(ANY, damaged()))
def test_the_books_and_the_bindings_tell_the_same_doomed_cells(world: World) -> None:
    Player(Engine(world.cluster), world.lasts, watch).play(world.arrivals)

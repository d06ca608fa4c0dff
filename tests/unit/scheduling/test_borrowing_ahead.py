"""Named case of borrowing ahead: a gang that ran on loan ends early, and the next job packs elsewhere."""

from scheduling import Borrow, CellType, Cluster, Engine, Job, Policy, QuotaLine, VirtualCluster
from scheduling.model.cluster import Order
from tests.unit.scheduling.builders import job, node, role
from tests.unit.scheduling.playing import Run, run_to_the_end

GPUS = {"x": 3, "w": 3, "gang": 4, "next": 1, "whole": 4}
LASTS = {"x": 100, "w": 200, "gang": 30, "next": 1_000, "whole": 10, "theirs": 1_000}
COMES = {"whole": 131}


def cluster_of(line: str, count: int, *teams: str) -> Cluster:
    """Two nodes of four GPUs for each team, its quota counted in cells of this type."""
    return Cluster(
        tuple(node(f"n{number}", 4, shape="box") for number in range(2 * len(teams))),
        tuple(VirtualCluster(team, (QuotaLine(line, count),)) for team in teams),
        cell_types=(CellType("box", "A100", 4, node_level=True),),
        policy=Policy(order=Order.SUBMISSION, backfill=False),
    )


def ours(line: str, borrow: Borrow) -> list[tuple[int, Job]]:
    """The team's jobs: tasks that need a node each, or gangs of single GPUs where those are what the quota counts."""
    jobs = [
        job(
            name,
            role(gpus=gpus) if line == "box" else role(count=gpus),
            vc="a",
            borrow=borrow,
            at=COMES.get(name, 0),
            order=number,
        )  # fmt: skip
        for number, (name, gpus) in enumerate(GPUS.items())
    ]
    return [(one.submitted_ms, one) for one in jobs]


def played(line: str, count: int) -> tuple[Run, Run]:
    """Alone on its own nodes, and beside a team that wants all of its own from 40 on."""
    alone = run_to_the_end(Engine(cluster_of(line, count, "a")), ours(line, Borrow.NEVER), LASTS)
    theirs = [(40, job(f"theirs{n}", role(gpus=4), vc="b", at=40, order=10 + n)) for n in range(2)]
    arrivals = sorted([*ours(line, Borrow.AUTO), *theirs], key=lambda one: one[0])
    lasts = LASTS | {f"theirs{n}": 1_000 for n in range(2)}
    return alone, run_to_the_end(Engine(cluster_of(line, count, "a", "b")), arrivals, lasts)


def cells_of(run: Run, name: str) -> set[str]:
    """The nodes of the quota in which a job lay."""
    return {cell.rsplit("/", 1)[0] for one in run.starts if one.job == name for cell in one.cells}


def test_with_cells_of_nodes_the_next_job_packs_elsewhere_and_a_whole_cell_comes_later() -> None:
    alone, shared = played("box", 2)
    assert (alone.began["gang"], shared.began["gang"]) == ([100], [0])
    assert cells_of(alone, "next") != cells_of(shared, "next")
    assert alone.began["whole"] == [131]
    assert shared.began["whole"] == [200]


def test_with_quota_in_gpus_nobody_starts_later_than_alone() -> None:
    alone, shared = played("A100", 8)
    assert all(shared.began[name][0] <= alone.began[name][0] for name in GPUS)

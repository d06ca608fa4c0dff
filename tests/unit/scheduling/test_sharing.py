"""The textbook's capacity scheduler and YARN's flat cases, in GPUs, through the engine."""

from dataclasses import replace

import pytest

from scheduling import Borrow, CellType, Cluster, Engine, Plan, Policy, QuotaLine, Rules, TaskRef, VirtualCluster
from scheduling.model.cluster import Order
from scheduling.model.job import Job
from tests.support.run.facts import read_json
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running

EXAMPLES = read_json("worked_examples.json")
YARN = {case["name"]: case for case in EXAMPLES["yarn_capacity_preemption"]["flat"]}


def hundred(quotas: dict[str, int], rules: dict[str, Rules]) -> Cluster:
    """A hundred GPUs, one to a node so that nothing but numbers matters, shared by these teams."""
    made = cluster(*(node(f"n{number:03}", 1) for number in range(100)), **quotas)
    teams = tuple(replace(team, rules=rules.get(team.id, Rules())) for team in made.virtual_clusters)
    return replace(made, virtual_clusters=teams, policy=Policy())


def jobs_of(team: str, count: int, *, name: str = "used", user: str = "alice") -> list[Job]:
    """So many jobs of one GPU that start on loan where their team has no quota left."""
    return [
        job(f"{team}-{name}-{user}-{number:03}", vc=team, user=user, order=number)._replace(borrow=Borrow.AUTO)
        for number in range(count)
    ]


def held(made: Engine, team: str, user: str | None = None) -> int:
    return sum(one.job.vc == team and user in {None, one.job.user} for one in made.snapshot().running)


def lost(plan: Plan) -> dict[str, int]:
    """Jobs that are preempted, by team."""
    counts: dict[str, int] = {}
    for preempt in plan.preemptions:
        for victim in preempt.victims:
            team = victim.job.partition("-")[0]
            counts[team] = counts.get(team, 0) + 1
    return counts


# Left out, because our rules say otherwise on purpose: "deadzone" (a team gets all of its quota at once, not but for a
# tenth), "queue B not preemptable" (what is on loan can always be taken back; `preemptible: false` holds inside the
# quota only), "newest lowest-priority containers first" (of what is on loan goes what loses least work; priorities
# are a matter inside a team) and "dominant resource" (quota is cells; CPU and memory come with them).
APPLY = [
    "ignore-no-demand", "proportional", "max-cap", "preempt-cycle", "queue B preemptable",
    "over-capacity queues do not preempt each other",
]  # fmt: skip


@pytest.mark.parametrize("name", APPLY)
def test_yarns_flat_cases(name: str) -> None:
    case = YARN[name]
    queues = dict(zip("ABCD", case["guaranteed"], strict=False))
    most = dict(zip("ABCD", case.get("max", []), strict=False))
    rules = {
        queue: Rules(weight=share, max_borrow={"A100": most[queue] - share} if queue in most else {})
        for queue, share in queues.items()
    }
    made = Engine(hundred(queues, rules))
    for queue, used in zip(queues, case["used"], strict=True):
        for one in jobs_of(queue, used):
            made.submit(one)
    made.advance(0)
    assert [held(made, queue) for queue in queues] == case["used"]
    for queue, pending in zip(queues, case["pending"], strict=True):
        for one in jobs_of(queue, pending, name="pending"):
            made.submit(one)
    taken = lost(made.plan(1000))
    expected = case.get("preempt", [case.get("preempt_from_A"), 0, 0, 0])
    assert [taken.get(queue, 0) for queue in queues] == expected


def capacity() -> Engine:
    """The textbook's three queues: 10 % each, up to 30 % with what is idle; user limit factors 3, 1 and 0.25."""
    factors = {"A": 3.0, "B": 1.0, "C": 0.25}
    rules = {team: Rules(user_factor=factor, max_borrow={"A100": 20}) for team, factor in factors.items()}
    return Engine(hundred(dict.fromkeys("ABC", 10), rules))


def test_a_user_of_a_queue_with_factor_three_may_use_all_that_the_queue_may() -> None:
    made = capacity()
    for one in jobs_of("A", 40):
        made.submit(one)
    plan = made.plan(0)
    made.carry_out(plan)
    assert held(made, "A") == 30, "10 of its own and 20 idle ones, and no queue goes beyond its most"


def test_a_user_of_a_queue_with_factor_one_may_use_what_the_queue_owns_and_no_more() -> None:
    made = capacity()
    for one in [*jobs_of("B", 15, user="one"), *jobs_of("B", 5, user="two")]:
        made.submit(one)
    plan = made.plan(0)
    made.carry_out(plan)
    assert (held(made, "B", "one"), held(made, "B", "two")) == (10, 5)
    assert len(plan.waits) == 5


def test_two_users_share_a_queue_by_halves() -> None:
    made = capacity()
    for user in ("one", "two"):
        for one in jobs_of("B", 10, user=user):
            made.submit(one._replace(borrow=Borrow.NEVER))
    made.advance(0)
    assert (held(made, "B", "one"), held(made, "B", "two")) == (5, 5)


def test_each_queue_gets_its_own_whenever_it_asks_and_gives_back_what_was_idle() -> None:
    made = Engine(hundred({"A": 10, "B": 10, "C": 80}, {}))
    for one in jobs_of("A", 100):
        made.submit(one)
    made.advance(0)
    assert held(made, "A") == 100, "everything is lent"
    for team, count in (("B", 10), ("C", 80)):
        for one in jobs_of(team, count):
            made.submit(one)
        for preempt in made.advance(1000).preemptions:
            for victim in preempt.victims:
                made.finish(victim.job, victim.tasks)
        made.advance(1000)
        assert held(made, team) == count
    assert held(made, "A") == 10


def test_a_team_owes_nobody_for_a_loan_as_large_as_its_own_idle_quota() -> None:
    """Of `a` two GPUs are on loan beside four idle ones of its own, which it cannot move to; of `c` one, beyond all it
    has. What `b` wants back is taken from `c`."""
    boxes = Cluster(
        tuple(node(f"n{number}", 4, shape="box") for number in range(3)),
        tuple(VirtualCluster(team, (QuotaLine("box", 1),)) for team in "abc"),
        cell_types=(CellType("box", "A100", 4, node_level=True),),
    )
    made = Engine(boxes)
    for number, (team, name, gpus) in enumerate(
        [("a", "own", 4), ("b", "first", 1), ("c", "whole", 4), ("a", "lent", 2), ("c", "more", 1)]
    ):
        made.submit(job(name, role(gpus=gpus), vc=team, order=number, borrow=Borrow.AUTO))
        made.advance(number)
    made.finish("own")
    assert not made.advance(10).promotions, "the node it runs on is b's"
    made.submit(job("second", vc="b", order=10))
    (preempt,) = made.advance(11).preemptions
    assert [victim.job for victim in preempt.victims] == ["more"]


def two_boxes() -> Engine:
    """Two nodes of a box each, of which `a` and `b` own one: all of `a`'s is used, half of `b`'s, and on the other half
    `a` runs on loan."""
    made = Engine(
        Cluster(
            tuple(node(f"n{number}", 4, shape="box") for number in range(2)),
            tuple(VirtualCluster(team, (QuotaLine("box", 1),)) for team in "ab"),
            cell_types=(CellType("box", "A100", 4, node_level=True),),
            policy=Policy(order=Order.SUBMISSION, backfill=False),
        )
    )
    for number, (team, name) in enumerate([("a", "one"), ("a", "two"), ("b", "theirs"), ("a", "lent")]):
        made.submit(job(name, role(gpus=2), vc=team, order=number, borrow=Borrow.AUTO))
        made.advance(number)
    return made


def test_what_is_owed_to_a_job_on_loan_is_what_is_free_now() -> None:
    made = two_boxes()
    made.finish("one")
    assert not made.advance(10).promotions, "the node it runs on is b's"
    made.submit(job("urgent", role(gpus=2), vc="a", priority=20, order=10))
    assert [start.job.id for start in made.advance(11).starts] == ["urgent"]
    made.finish("two")
    made.submit(job("later", role(gpus=2), vc="a", order=11))
    assert not made.advance(12).starts
    made.finish("lent")
    assert [start.job.id for start in made.advance(13).starts] == ["later"]


def test_a_job_on_loan_moves_in_when_a_cell_of_its_team_comes_to_its_node() -> None:
    made = two_boxes()
    for name in ("one", "two"):
        made.finish(name)
    made.submit(job("idler", role(gpus=4), vc="b", priority=-1, order=10))
    assert not made.advance(10).promotions, "the node it runs on is b's"
    made.finish("theirs")
    made.submit(job("urgent", role(gpus=2), vc="a", priority=20, order=11))
    plan = made.advance(11)
    assert [start.job.id for start in plan.starts] == ["urgent"], "where nobody has to leave"
    assert [promotion.job for promotion in plan.promotions] == ["lent"]


def test_of_a_job_that_is_no_gang_a_task_moves_in_while_another_of_it_leaves() -> None:
    made = running(cluster(node("a", 3), node("b", 3), vision=3), job("lazy", role(count=3), lazy=True, priority=0))
    made.submit(job("small", order=1, priority=0, borrow=Borrow.AUTO))
    made.submit(job("loose", role(count=3), gang=False, borrow=Borrow.AUTO, order=2, priority=0))
    assert [len(one.placements) for one in made.advance(0).starts] == [1, 1, 1]
    made.submit(job("urgent", role(count=2), order=3))
    plan = made.plan(1)
    assert plan.preemptions[0].demotes == ("lazy",)
    assert sorted(victim.job for one in plan.preemptions for victim in one.victims) == ["loose", "small"]
    assert [(one.job, one.placements[0].task.index) for one in plan.promotions] == [("loose", 1)]


def test_a_task_without_gpus_that_started_on_loan_is_not_started_again_when_fewer_gpus_idle() -> None:
    made = engine(
        cluster(node("a", 4, cpu=16), vision=0, speech=1),
        job("loose", role("small", gpus=0, sku=None), role("large", gpus=0, cpu=4, sku=None), gang=False,
            borrow=Borrow.AUTO),
        job("theirs", role("small"), role("large", cpu=4), gang=False, borrow=Borrow.AUTO, vc="speech"),
    )  # fmt: skip
    plan = made.plan(0)
    begun = [(start.job.id, placement.task) for start in plan.starts for placement in start.placements]
    assert ("loose", TaskRef("small", 0)) in begun
    assert len(begun) == len(set(begun))

"""Every waiting job has one reason, with numbers and a sentence, and the reason is true."""

from dataclasses import dataclass, replace

import pytest

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    Code,
    Engine,
    FirstToPay,
    Job,
    NodeState,
    PinnedCell,
    Policy,
    QuotaLine,
    Rules,
    Victim,
    VirtualCluster,
    Wait,
    all_tasks,
)
from scheduling.model.cluster import Order
from tests.unit.scheduling.builders import cluster, job, node, role, running, wait_of, with_rules


@dataclass(frozen=True)
class Case:
    described: Cluster
    busy: tuple[Job, ...]
    asked: Job
    code: Code
    numbers: dict[str, int | str]
    sentence: str


BIG = cluster(node("gpu01"), node("gpu02"), vision=8)
SHUT, HELPER = node("gpu01", cpu_tasks=False), role("helper", gpus=0, sku=None)
CASES = {
    "paused": Case(
        BIG, (), job("j", paused=True), Code.PAUSED, {},
        "the job is paused; once it is resumed it waits for its turn",
    ),
    "one dependency": Case(
        BIG, (), job("j", after=("prep",)), Code.DEPENDENCY, {"jobs": 1}, "it starts after job prep has ended",
    ),
    "several dependencies": Case(
        BIG, (), job("j", after=("prep", "x")), Code.DEPENDENCY, {"jobs": 2},
        "it starts after job prep and 1 more have ended",
    ),
    "quota": Case(
        cluster(node("gpu01", 8), vision=4), (job("b", role(gpus=3)),), job("j", role(gpus=2)), Code.QUOTA,
        {"held": 3, "owned": 4, "needed": 2}, "team vision holds 3 of its 4 A100, so 1 is left; this job needs 2",
    ),
    "quota of a gang counts all its tasks": Case(
        cluster(node("gpu01", 8), vision=4), (job("b"),), job("j", role(count=2, gpus=2)), Code.QUOTA,
        {"held": 1, "owned": 4, "needed": 4}, "team vision holds 1 of its 4 A100, so 3 are left; this job needs 4",
    ),
    "quota of a job that is not a gang counts one task": Case(
        cluster(node("gpu01", 8), vision=4), (job("b", role(gpus=4)),),
        job("j", role(count=3), gang=False), Code.QUOTA,
        {"held": 4, "owned": 4, "needed": 1}, "team vision holds 4 of its 4 A100, so none is left; this job needs 1",
    ),
    "fragmented, one task": Case(
        BIG, (job("b1", only=("gpu01",)), job("b2", role(gpus=2), only=("gpu02",))),
        job("j", role(gpus=4)), Code.FRAGMENTED, {"largest": 3, "node": "gpu01", "free": 5, "needed": 4},
        "it needs 4 A100 on one node; the most that one node has free is 3 (gpu01)",
    ),
    "fragmented, a gang": Case(
        BIG, (job("b1", only=("gpu01",)), job("b2", only=("gpu02",))),
        job("j", role(count=3, gpus=2)), Code.FRAGMENTED, {"largest": 3, "free": 6, "needed_in_all": 6},
        "it needs 3 tasks with 2 A100 each at once; 6 are free, at most 3 of them on one node (gpu01)",
    ),
    "a node is down": Case(
        cluster(node("gpu01"), node("gpu02", state=NodeState.DOWN), vision=8), (job("b"),),
        job("j", role(gpus=4)), Code.BAD_NODES, {"needed": 4, "free": 3, "unusable": 4, "doomed": 4},
        "it needs 4 A100; 3 are free, and 4 more cannot be used now: gpu02 (down); "
        "because of that, 4 A100 of team vision's quota cannot be had",
    ),
    "of two SKUs the one that is down is named": Case(
        cluster(node("gpu01"), node("gpu02", 4, "H100", state=NodeState.DOWN), vision={"A100": 4, "H100": 4}),
        (), job("j", role("x", sku="A100"), role("y", 2, sku="H100")), Code.BAD_NODES,
        {"sku": "H100", "needed": 2, "free": 0, "unusable": 4},
        "it needs 2 H100; 0 are free, and 4 more cannot be used now: gpu02 (down); "
        "because of that, 4 H100 of team vision's quota cannot be had",
    ),
    "of two SKUs the one with too small holes is named": Case(
        cluster(node("gpu01"), node("gpu02", 2, "H100"), node("gpu03", 2, "H100"), vision={"A100": 4, "H100": 4}),
        (job("b1", role(sku="H100"), only=("gpu02",)), job("b2", role(sku="H100"), only=("gpu03",))),
        job("j", role("x", gpus=4, sku="A100"), role("y", gpus=2, sku="H100")), Code.FRAGMENTED,
        {"sku": "H100", "needed": 2, "largest": 1, "free": 2},
        "it needs 2 H100 on one node; the most that one node has free is 1 (gpu02)",
    ),
    "a GPU is faulty": Case(
        cluster(node("gpu01", sick=(1,)), vision=4), (), job("j", role(gpus=4)), Code.BAD_NODES,
        {"needed": 4, "free": 3, "unusable": 1},
        "it needs 4 A100; 3 are free, and 1 more cannot be used now: gpu01 (1 faulty GPU); "
        "because of that, 1 A100 of team vision's quota cannot be had",
    ),
    "CPU": Case(
        cluster(node("gpu01", cpu=16), vision=4), (job("b", role(cpu=12)),), job("j", role(cpu=8)),
        Code.RESOURCES, {"cpu_milli": 8000, "free_cpu_milli": 4000, "node": "gpu01"},
        "it needs 8 CPU and 1 GB with 1 A100; the node with the most room, gpu01, has 4 CPU and 255 GB free",
    ),
    "CPU, and the node with the most of it": Case(
        cluster(node("gpu01", cpu=16), node("gpu02", cpu=16), vision=8),
        (job("b1", role(cpu=12), only=("gpu01",)), job("b2", role(cpu=10), only=("gpu02",))), job("j", role(cpu=8)),
        Code.RESOURCES, {"cpu_milli": 8000, "free_cpu_milli": 6000, "node": "gpu02"},
        "it needs 8 CPU and 1 GB with 1 A100; the node with the most room, gpu02, has 6 CPU and 255 GB free",
    ),
    "CPU and memory, and the node that comes nearest in what it has least of": Case(
        cluster(node("gpu01", cpu=16, memory=16), node("gpu02", cpu=16, memory=16), vision=8),
        (job("b1", role(cpu=9, memory=15), only=("gpu01",)), job("b2", role(cpu=12, memory=12), only=("gpu02",))),
        job("j", role(cpu=8, memory=8)), Code.RESOURCES, {"free_cpu_milli": 4000, "node": "gpu02"},
        "it needs 8 CPU and 8 GB with 1 A100; the node with the most room, gpu02, has 4 CPU and 4 GB free",
    ),
    "of two SKUs that would do, the one that comes nearest": Case(
        cluster(node("a", cpu=16), node("h", 4, "H100", state=NodeState.DOWN), vision={"A100": 4, "H100": 4}),
        (job("b", role(cpu=12)),), job("j", role(cpu=8, sku=None)), Code.RESOURCES, {"node": "a"},
        "it needs 8 CPU and 1 GB with 1 A100; the node with the most room, a, has 4 CPU and 255 GB free",
    ),
    "CPU of several tasks": Case(
        cluster(node("gpu01", cpu=16), vision=4), (job("b", role(cpu=2)),), job("j", role(count=2, cpu=8)),
        Code.RESOURCES, {"cpu_milli": 8000, "tasks": 2, "free_cpu_milli": 14000},
        "it needs 2 tasks of 8 CPU and 1 GB with 1 A100; "
        "the node with the most room, gpu01, has 14 CPU and 255 GB free",
    ),
    "CPU of unequal tasks that would each fit alone": Case(
        cluster(node("gpu01", cpu=16), vision=4), (), job("j", role("x", cpu=9), role("y", cpu=8)),
        Code.RESOURCES, {"cpu_milli": 9000, "tasks": 1, "free_cpu_milli": 16000},
        "each of its tasks would fit, but not all together, which need 17 CPU and 2 GB; "
        "the node with the most room, gpu01, has 16 CPU and 256 GB free",
    ),
    "memory": Case(
        cluster(node("gpu01", memory=16), vision=4), (job("b", role(memory=12)),), job("j", role(memory=8)),
        Code.RESOURCES, {"memory_mb": 8192, "free_memory_mb": 4096},
        "it needs 1 CPU and 8 GB with 1 A100; the node with the most room, gpu01, has 63 CPU and 4 GB free",
    ),
    "CPU that is kept for idle GPUs": Case(
        cluster(node("gpu01", cpu=16), vision=4), (job("b", role(gpus=2, cpu=6, memory=0)),),
        job("j", role(gpus=0, cpu=3, memory=0, sku=None)), Code.RESOURCES,
        {"cpu_milli": 3000, "free_cpu_milli": 2000, "kept_cpu_milli": 8000, "kept_memory_mb": 131072},
        "it needs 3 CPU; the node with the most room, gpu01, has 2 CPU and 128 GB free for it; "
        "8 CPU and 128 GB more are kept there for jobs that use its idle GPUs",
    ),
    "CPU that is kept for idle GPUs, from tasks of which one has a GPU": Case(
        cluster(node("gpu01", cpu=16, memory=0), vision=4), (job("b", role(gpus=2, cpu=4, memory=0)),),
        job("j", role("x", cpu=6, memory=0), role("y", gpus=0, cpu=4, memory=0, sku=None)), Code.RESOURCES,
        {"cpu_milli": 6000, "free_cpu_milli": 8000, "kept_cpu_milli": 4000, "all_cpu_milli": 10_000},
        "each of its tasks would fit, but not all together, which need 10 CPU; the node with the most room, gpu01, "
        "has 8 CPU and 0 MB free for it; 4 CPU more are kept there for jobs that use its idle GPUs",
    ),
    "no node takes tasks without GPUs": Case(
        cluster(SHUT, node("gpu02", cpu_tasks=False), vision=4), (), job("j", HELPER), Code.FRAGMENTED, {"shut": 2},
        "it has tasks without GPUs, and the 2 servers for them take only tasks with GPUs",
    ),
    "no node takes the tasks without GPUs of a job that has others": Case(
        cluster(SHUT, vision=4), (), job("j", role(), HELPER), Code.FRAGMENTED, {"shut": 1},
        "it has tasks without GPUs, and the only server that they could run on takes only tasks with GPUs",
    ),
    "CPU of the nodes that take tasks without GPUs": Case(
        cluster(SHUT, node("cpu01", 0, cpu=4), vision=4), (job("b", HELPER),), job("j", role(gpus=0, cpu=4, sku=None)),
        Code.RESOURCES, {"node": "cpu01", "free_cpu_milli": 3000, "shut": 1},
        "it needs 4 CPU and 1 GB; the node with the most room, cpu01, has 3 CPU and 255 GB free; "
        "1 more server takes only tasks with GPUs",
    ),
    "lending": Case(
        with_rules(cluster(node("gpu01"), vision=3), vision=Rules(max_lend={"A100": 1})), (job("b"),),
        job("j", role(gpus=3), priority=-1), Code.LEND_LIMIT, {"lent": 0, "limit": 2, "needed": 3},
        "all teams together lend at most 2 A100 now, and 0 are lent; this job would borrow 3",
    ),
    "borrowing": Case(
        with_rules(cluster(node("gpu01"), vision=1), vision=Rules(max_borrow={"A100": 2})),
        (job("b", priority=-1),), job("j", role(gpus=2), priority=-1), Code.BORROW_LIMIT,
        {"held": 1, "limit": 2, "needed": 2},
        "team vision may borrow at most 2 A100, and has borrowed 1; this job would borrow 2",
    ),
    "a user's part of the quota": Case(
        with_rules(cluster(node("gpu01"), vision=4), vision=Rules(user_factor=0.5)), (job("b"),),
        job("j", role(gpus=2)), Code.USER_LIMIT, {"user": "alice", "held": 1, "limit": 2, "needed": 2},
        "user alice holds 1 of the 2 A100 that one user of team vision may hold; this job needs 2",
    ),
    "what one user may hold": Case(
        with_rules(cluster(node("gpu01"), vision=4), vision=Rules(user_gpus=3)), (job("b", role(gpus=2)),),
        job("j", role(gpus=2)), Code.USER_LIMIT, {"user": "alice", "held": 2, "limit": 3, "needed": 2},
        "user alice holds 2 of the 3 GPUs that one user of team vision may hold; this job needs 2",
    ),
    "what jobs of a high class may hold": Case(
        with_rules(cluster(node("gpu01"), vision=4), vision=Rules(class_priority=100, class_gpus=2)),
        (job("b", role(gpus=2), priority=200, user="bob"),), job("j", priority=100), Code.USER_LIMIT,
        {"priority": 100, "held": 2, "limit": 2, "needed": 1},
        "jobs of priority 100 and higher hold 2 of the 2 GPUs that team vision allows them together; this job needs 1",
    ),
    "a team that owns nothing": Case(
        cluster(node("gpu01"), vision=4, guests=0), (), job("j", role(sku=None), vc="guests"), Code.QUOTA,
        {"owned": 0}, "team guests owns no GPUs",
    ),
    "a team that is gone": Case(
        cluster(node("gpu01"), vision=4), (), job("j", vc="gone"), Code.QUOTA,
        {"owned": 0}, "there is no virtual cluster gone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reason(case: str) -> None:
    described = CASES[case]
    answer = running(described.described, *described.busy).decide(described.asked, 0)
    assert isinstance(answer, Wait)
    assert answer.reason.code == described.code
    assert described.numbers.items() <= answer.reason.numbers.items()
    assert answer.reason.sentence == described.sentence


def test_a_job_that_is_held_back_but_has_no_quota_anyway_is_told_of_the_quota() -> None:
    made = running(cluster(node("gpu01"), vision=4), job("holder", role(gpus=3)))
    made.submit(job("head", role(gpus=4), at=1))
    made.submit(job("also", role(gpus=2), at=2))
    made.submit(job("small", role(gpus=1), at=3))
    codes = {wait.job.id: wait.reason.code for wait in made.plan(0).waits}
    assert codes == {"head": Code.QUOTA, "also": Code.QUOTA, "small": Code.ORDER}


def test_what_does_not_start_of_a_job_that_is_no_gang_has_its_reason_in_the_same_plan() -> None:
    made = running(cluster(node("gpu01"), vision=2))
    made.submit(job("j", role(count=4), gang=False))
    plan = made.plan(0)
    assert len(plan.starts[0].placements) == 2
    (wait,) = plan.waits
    assert [task.index for task in wait.job.wanted] == [2, 3]
    assert wait.reason.sentence == "team vision holds 2 of its 2 A100, so none is left; this job needs 1"
    assert made.explain("j", 0) == wait


def test_of_a_job_that_is_no_gang_the_task_with_a_right_to_cells_may_be_beyond_the_users_limit() -> None:
    """The small task is within the limit and finds no cell; the large one has a cell and is beyond the limit."""
    described = cluster(node("gpu01", 4), node("h", 2, "H100"), vision={"A100": 4, "H100": 2})
    made = running(described, job("holder", role(sku="H100")))
    made.submit(job("j", role("large", gpus=4), role("small", gpus=2, sku="H100"), gang=False, order=1))
    made = Engine.restore(replace(made.snapshot(), cluster=with_rules(described, vision=Rules(user_gpus=3))))
    (wait,) = made.plan(0).waits
    assert wait.reason.code == Code.USER_LIMIT
    assert (wait.reason.numbers["held"], wait.reason.numbers["needed"], wait.reason.numbers["limit"]) == (1, 4, 3)


def test_what_cannot_start_of_a_job_that_takes_cells_waits_for_them_too_and_not_for_quota() -> None:
    made = running(cluster(node("gpu01"), vision=2), job("low", role(count=2), priority=1, gang=False, grace=1000))
    made.submit(job("high", role(count=3), priority=20, gang=False))
    made.advance(0)
    (wait,) = made.plan(1).waits
    assert len(wait.job.wanted) == 3
    assert wait.reason.sentence == "2 GPUs are being taken back for it from job low; it starts when that has ended"


def test_after_a_quota_cut_the_job_that_fits_no_longer_is_on_loan_and_gives_way() -> None:
    made = running(cluster(node("gpu01"), vision=4), job("b", role(gpus=4)))
    made.submit(job("j"))
    made.reconfigure(cluster(node("gpu01"), vision=2))
    plan = made.plan(0)
    made.carry_out(plan)
    assert [(one.job, one.cause) for one in plan.demotions] == [("b", "quota")]
    assert [one.victims for one in plan.preemptions] == [(Victim("b", all_tasks((role(),)), 0),)]
    assert (
        wait_of(plan, "j").reason.sentence
        == "1 GPU is being taken back for it from job b; it starts when that has ended"
    )
    made.finish("b")
    assert [start.job.id for start in made.plan(0).starts] == ["j"]


PINNED = replace(
    cluster(node("gpu01", shape="box", sick=(0,)), node("gpu02", shape="box"), vision=4),
    cell_types=(CellType("box", "A100", 4, node_level=True),),
    pinned_cells=(PinnedCell("mine", "box", "gpu01"),),
    virtual_clusters=(VirtualCluster("vision", (QuotaLine("A100", 4),), pinned=("mine",)),),
)


def test_a_job_for_a_pinned_cell_is_told_of_the_fault_in_it_though_other_nodes_are_free() -> None:
    made = running(PINNED)
    answer = made.decide(job("j", replace(role(gpus=4), pinned_cell="mine")), 0)
    assert isinstance(answer, Wait)
    assert answer.reason.code == Code.BAD_NODES


def test_a_job_that_names_no_pinned_cell_is_told_of_the_other_cells_alone() -> None:
    made = running(PINNED, job("b", role(gpus=4)))
    answer = made.decide(job("j", role(gpus=2)), 0)
    assert isinstance(answer, Wait)
    assert answer.reason.sentence == "team vision holds 4 of its 4 A100, so none is left; this job needs 2"


def test_a_high_priority_that_only_bad_hardware_holds_back_is_not_told_of_the_quota_that_it_could_take() -> None:
    made = running(cluster(node("gpu01"), vision=4), job("low", role(gpus=2), priority=1))
    made.set_node(node("gpu01", sick=(3,)))
    answer = made.decide(job("high", role(gpus=4), priority=9), 0)
    assert isinstance(answer, Wait)
    assert answer.reason.code == Code.BAD_NODES


def test_where_all_that_has_room_is_owed_to_a_job_ahead_that_is_on_loan_the_order_is_told() -> None:
    """The other cell of the team could only lie on the node that is down."""
    boxes = [node(name, 2, shape="box") for name in ("gpu01", "gpu02", "gpu03")]
    described = replace(
        cluster(*boxes),
        cell_types=(CellType("box", "A100", 2, node_level=True),),
        virtual_clusters=(
            VirtualCluster("vision", (QuotaLine("box", 2),)),
            VirtualCluster("speech", (QuotaLine("box", 1),)),
        ),
    )
    theirs = job("theirs", vc="speech")
    made = running(described, job("stays"), job("ends", order=1), job("large", role(gpus=2), order=2), theirs)
    made.submit(job("ahead", borrow=Borrow.AUTO, order=3))
    made.advance(0)
    (below,) = {task.placement.node for one in made.snapshot().running if one.job.id == "large" for task in one.tasks}
    made.finish("ends")
    made.finish("large")
    made.set_node(node(below, 2, shape="box", state=NodeState.DOWN))
    made.submit(job("j", order=4))
    plan = made.plan(0)
    assert (plan.answers, plan.promotions) == ((), ())
    assert wait_of(plan, "j").reason.code == Code.ORDER
    assert wait_of(plan, "j").reason.sentence == (
        "3 of team vision's A100 are free, but 1 of them is for an earlier job that runs on borrowed GPUs and will "
        "move there; on no node is there room for the rest; this job needs 1"
    )


def owed_beside_another_sku(*others: Job) -> Engine:
    """Of the 2 H100 of team vision, all of them free, 1 is owed to a job that runs on loan on the node of team speech;
    of A100 the team owns 1."""
    nodes = [node("gpu01", 1), *(node(name, 2, "H100", shape="box") for name in ("gpu02", "gpu03"))]
    described = replace(
        cluster(*nodes),
        cell_types=(CellType("box", "H100", 2, node_level=True),),
        virtual_clusters=(
            VirtualCluster("vision", (QuotaLine("A100", 1), QuotaLine("box", 1))),
            VirtualCluster("speech", (QuotaLine("box", 1),)),
        ),
    )
    theirs, large = job("theirs", role(sku="H100"), vc="speech"), job("large", role(gpus=2, sku="H100"))
    made = running(described, theirs, large, job("ahead", role(sku="H100"), borrow=Borrow.AUTO, order=1), *others)
    made.finish("large")
    return made


OWED_H100 = (
    "2 of team vision's H100 are free, but 1 of them is for an earlier job that runs on borrowed GPUs and will move "
    "there; this job needs 2"
)


def test_the_cell_of_a_lower_priority_that_an_earlier_job_on_loan_comes_for_is_no_place_for_the_next() -> None:
    first = Policy(order=Order.SUBMISSION, backfill=False, first_to_pay=FirstToPay.LOSS)
    made = running(replace(cluster(node("a", 2), vision=1), policy=first), job("low", priority=0))
    for number in (1, 2):
        made.submit(job(f"j{number}", priority=5, order=number, borrow=Borrow.AUTO if number == 1 else Borrow.NEVER))
    made.advance(100 * 3_600_000)
    assert wait_of(made.plan(100 * 3_600_000), "j2").reason.sentence == (
        "1 of team vision's A100, 1 of them used by lower priorities, is for an earlier job that runs on borrowed GPUs "
        "and will move there; this job needs 1"
    )


def test_where_one_sku_is_owed_to_a_job_ahead_and_the_other_too_small_a_quota_the_order_is_told() -> None:
    made = owed_beside_another_sku()
    made.submit(job("j", role(count=2, sku=None), order=2))
    plan = made.plan(0)
    assert (plan.answers, plan.promotions) == ((), ())
    assert wait_of(plan, "j").reason.code == Code.ORDER
    assert wait_of(plan, "j").reason.sentence == OWED_H100


def test_what_is_owed_to_jobs_ahead_is_counted_of_the_sku_that_the_sentence_names() -> None:
    """Of A100, too, one is owed to a job that runs on loan."""
    skus, teams = {"A100": "abox", "H100": "hbox"}, ("vision", "speech")
    described = Cluster(
        tuple(node(f"{shape}{one}", 2, sku, shape=shape) for sku, shape in skus.items() for one in (1, 2)),
        tuple(VirtualCluster(team, tuple(QuotaLine(shape, 1) for shape in skus.values())) for team in teams),
        cell_types=tuple(CellType(shape, sku, 2, node_level=True) for sku, shape in skus.items()),
    )
    made = Engine(described)
    for sku in skus:
        made.submit(job(f"theirs{sku}", role(sku=sku), vc="speech"))
        made.submit(job(f"large{sku}", role(gpus=2, sku=sku)))
        made.submit(job(f"ahead{sku}", role(sku=sku), borrow=Borrow.AUTO, order=1))
    assert made.advance(0).waits == ()
    for sku in skus:
        made.finish(f"large{sku}")
    made.submit(job("j", role(gpus=2, sku="H100"), order=2))
    assert wait_of(made.plan(0), "j").reason.sentence == OWED_H100


def test_where_the_large_task_of_no_gang_is_owed_and_the_small_one_has_no_quota_the_order_is_told() -> None:
    made = owed_beside_another_sku(job("small", order=2))
    made.submit(job("j", role("large", gpus=2, sku="H100"), role("small"), gang=False, order=3))
    plan = made.plan(0)
    assert (plan.answers, plan.promotions) == ((), ())
    assert wait_of(plan, "j").reason.code == Code.ORDER
    assert wait_of(plan, "j").reason.sentence == OWED_H100


def test_of_no_gang_whose_small_task_wants_no_gpus_the_task_is_named_that_only_what_is_owed_has_room_for() -> None:
    made = owed_beside_another_sku()
    made.submit(
        job("j", role("large", gpus=2, sku="H100"), role("side", gpus=0, cpu=64, sku=None), gang=False, order=2)
    )
    plan = made.plan(0)
    assert (plan.answers, plan.promotions) == ((), ())
    assert wait_of(plan, "j").reason.code == Code.ORDER
    assert wait_of(plan, "j").reason.sentence == OWED_H100


def test_a_job_too_large_for_the_quota_of_one_sku_is_told_of_the_other_that_may_be_free_one_day() -> None:
    described = cluster(node("a", 4), node("h", 8, "H100"), vision={"A100": 4, "H100": 8})
    made = running(described, job("holds", role(gpus=8, sku="H100")))
    made.submit(job("asks", role(count=2, gpus=4, sku=None), order=1))
    assert wait_of(made.plan(0), "asks").reason.numbers == {
        "vc": "vision", "sku": "H100", "held": 8, "owned": 8, "needed": 8,
    }  # fmt: skip

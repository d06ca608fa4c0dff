"""Who comes first inside a virtual cluster, and whom a waiting job holds back."""

from dataclasses import replace

from scheduling import Borrow, CellType, Code, PinnedCell, Plan, Policy, QuotaLine, VirtualCluster
from tests.unit.scheduling.builders import carry_out, cluster, engine, job, node, role, running, wait_of
from tests.unit.scheduling.playing import run_to_the_end
from tests.unit.scheduling.worlds import passed

ONE = cluster(node("a"), vision=2, speech=2)


def started(plan: Plan) -> list[str]:
    return [start.job.id for start in plan.starts]


def test_higher_priority_starts_first() -> None:
    plan = engine(ONE, job("test", role(gpus=2), at=1), job("prod", role(gpus=2), priority=100, at=2)).plan(0)
    assert started(plan) == ["prod"]


def test_equal_priority_starts_by_submission() -> None:
    plan = engine(ONE, job("a-later", role(gpus=2), at=2), job("z-earlier", role(gpus=2), at=1)).plan(0)
    assert started(plan) == ["z-earlier"]


def test_equal_submission_starts_by_order_id_and_then_by_id() -> None:
    four = cluster(node("a"), vision=4)
    jobs = [job("c", order=1), job("b", order=1), job("a", order=2)]
    assert started(engine(four, *jobs).plan(0)) == ["b", "c", "a"]


def test_a_waiting_head_holds_back_the_jobs_behind_it() -> None:
    made = running(ONE, job("holder"))
    made.submit(job("head", role(gpus=2), at=1))
    made.submit(job("small", at=2))
    plan = made.plan(0)
    assert started(plan) == []
    assert wait_of(plan, "small").reason.code == Code.ORDER
    assert wait_of(plan, "small").reason.sentence == "1 job of the team comes first: 1 was submitted earlier"


def test_a_waiting_head_holds_back_no_other_team() -> None:
    made = running(ONE, job("holder"))
    made.submit(job("head", role(gpus=2), at=1))
    made.submit(job("other", vc="speech", at=2))
    assert started(made.plan(0)) == ["other"]


MIXED = cluster(node("a", 2, "A100"), node("h", 2, "H100"), vision={"A100": 2, "H100": 2})


def test_a_head_that_waits_for_one_sku_holds_up_no_other_sku() -> None:
    made = running(MIXED, job("holder", role(sku="H100")))
    made.submit(job("head", role(gpus=2, sku="H100"), at=1))
    made.submit(job("a100", role(gpus=2, sku="A100"), at=2))
    made.submit(job("h100", role(sku="H100"), at=3))
    plan = made.plan(0)
    assert started(plan) == ["a100"]
    assert wait_of(plan, "h100").reason.code == Code.ORDER


def test_a_job_that_takes_any_sku_passes_a_head_that_waits_for_another() -> None:
    made = running(MIXED, job("holder", role(sku="A100")))
    made.submit(job("head", role(gpus=2, sku="A100"), at=1))
    made.submit(job("any", role(sku=None), at=2))
    plan = made.plan(0)
    assert started(plan) == ["any"]
    assert plan.starts[0].placements[0].node == "h"


def test_a_job_over_two_skus_waits_behind_the_head_of_either() -> None:
    made = running(MIXED, job("holder", role(sku="A100")))
    made.submit(job("head", role(gpus=2, sku="A100"), at=1))
    made.submit(job("both", role("x", sku="A100"), role("y", sku="H100"), at=2))
    made.submit(job("behind", role(sku="H100"), at=3))
    plan = made.plan(0)
    assert started(plan) == []
    assert wait_of(plan, "behind").reason.numbers["ahead"] == 1


def test_a_job_without_gpus_is_not_held_back_by_one_with_gpus() -> None:
    made = running(cluster(node("a"), node("c", 0), vision=2), job("holder", role(gpus=2)))
    made.submit(job("head", at=1))
    made.submit(job("cpu", role(gpus=0, sku=None), at=2))
    assert started(made.plan(0)) == ["cpu"]


def test_paused_jobs_and_jobs_that_wait_for_others_hold_nobody_back() -> None:
    made = engine(ONE, job("paused", paused=True), job("after", after=("elsewhere",)), job("free", at=9))
    plan = made.plan(0)
    assert started(plan) == ["free"]
    assert (wait_of(plan, "paused").place, wait_of(plan, "after").place) == (None, None)


def test_a_job_starts_when_the_jobs_it_waits_for_are_over() -> None:
    made = running(ONE, job("first"))
    made.submit(job("second", after=("first",)))
    assert started(made.plan(0)) == []
    made.finish("first")
    assert started(made.plan(0)) == ["second"]


def test_the_place_counts_the_waiting_jobs_of_the_team_that_want_the_same_sku() -> None:
    holders = (job(sku, role(gpus=2, sku=sku), priority=100) for sku in ("A100", "H100"))
    made = running(MIXED, *holders)
    for number in range(3):
        made.submit(job(f"a{number}", role(sku="A100"), at=number))
    made.submit(job("h", role(sku="H100"), at=9))
    made.submit(job("urgent", role(sku="A100"), at=9, priority=100))
    places = {wait.job.id: wait.place for wait in made.plan(0).waits}
    assert places == {"urgent": 1, "a0": 2, "a1": 3, "a2": 4, "h": 1}


def test_who_is_ahead_is_told_by_priority_and_by_submission() -> None:
    made = running(cluster(node("a"), vision=4), job("holder", role(gpus=2), priority=100))
    made.submit(job("urgent", role(gpus=4), priority=100, at=5))
    made.submit(job("earlier", at=1))
    made.submit(job("mine", at=2))
    reason = wait_of(made.plan(0), "mine").reason
    assert reason.numbers == {"ahead": 2, "by_priority": 1, "by_share": 0, "by_submission": 1}
    assert reason.sentence == "2 jobs of the team come first: 1 has a higher priority, 1 was submitted earlier"


def test_between_teams_the_job_submitted_first_gets_the_scarce_cpu() -> None:
    scarce = cluster(node("a", cpu=4), vision=2, speech=2)
    made = engine(scarce, job("v", role(cpu=3), at=2), job("s", role(cpu=3), vc="speech", at=1, priority=0))
    assert started(made.plan(0)) == ["s"]


def test_an_opportunistic_job_comes_after_every_guaranteed_one() -> None:
    made = engine(cluster(node("a"), vision=1), job("oppo", role(gpus=3), priority=-1, at=0), job("mine", at=9))
    assert started(made.plan(0)) == ["mine", "oppo"]


def test_an_opportunistic_job_runs_on_idle_quota_until_its_owner_wants_it() -> None:
    made = engine(cluster(node("a"), vision=3, speech=1), *(job(f"o{n}", priority=-1, at=n) for n in range(4)))
    assert started(carry_out(made)) == ["o0", "o1", "o2", "o3"]
    made.submit(job("mine", role(gpus=3), vc="vision"))
    plan = carry_out(made)
    assert [len(one.victims) for one in plan.preemptions] == [3]
    assert wait_of(plan, "mine").reason.code == Code.PREEMPTING
    assert started(carry_out(made)) == ["mine"]


def test_a_guaranteed_job_never_waits_for_gpus_behind_an_opportunistic_one() -> None:
    made = engine(cluster(node("a"), vision=3), *(job(f"o{n}", priority=-1, at=n) for n in range(2)))
    assert started(carry_out(made)) == ["o0", "o1"]
    made.submit(job("mine", role(gpus=2)))
    assert started(made.plan(0)) == ["mine"]


def test_a_waiting_guaranteed_job_holds_back_no_opportunistic_one() -> None:
    made = running(cluster(node("a"), vision=2), job("holder", role(gpus=2)))
    made.submit(job("head"))
    made.submit(job("oppo", role(gpus=2), priority=-1))
    assert started(made.plan(0)) == ["oppo"]


def test_a_job_changes_team_by_being_submitted_again() -> None:
    made = running(ONE, job("holder", role(gpus=2)))
    made.submit(job("mine", role(gpus=2)))
    made.submit(job("mine", role(gpus=2), vc="speech"))
    plan = made.plan(0)
    assert started(plan) == ["mine"]
    assert plan.waits == ()


def test_tasks_that_need_not_start_together_do_not_wait_for_each_others_quota() -> None:
    made = running(MIXED, job("holder", role(gpus=2, sku="H100")))
    made.submit(job("j", role("small", gpus=1, sku="H100"), role("large", gpus=2, sku="A100"), gang=False))
    plan = made.plan(0)
    assert [placement.role for placement in plan.starts[0].placements] == ["large"]
    assert [(wait.job.wanted[0].role, wait.reason.code) for wait in plan.waits] == [("small", Code.QUOTA)]


def test_what_is_left_of_a_job_that_is_no_gang_holds_up_only_whom_it_wants_gpus_with() -> None:
    described = cluster(node("a", cpu=4), node("h", sku="H100"), vision={"A100": 4, "H100": 4})
    made = running(replace(described, policy=Policy(backfill=False)), job("holder", role(cpu=2), priority=1))
    both = role("a", cpu=4), role("h", sku="H100")
    made.submit(job("both", *both, priority=2, gang=False))
    made.submit(job("a too", priority=1))
    made.submit(job("h too", role(sku="H100"), priority=1))
    plan = made.plan(0)
    assert [(start.job.id, start.placements[0].role) for start in plan.starts] == [("both", "h"), ("h too", "worker")]
    assert [(wait.job.id, wait.reason.code) for wait in plan.waits] == [("both", Code.RESOURCES), ("a too", Code.ORDER)]
    assert passed(described, plan) == []


def test_tasks_without_gpus_that_are_left_of_a_job_start_when_there_is_cpu_for_them() -> None:
    described = cluster(node("a", 4, cpu=5, keep_cpu=1, keep_memory=0), vision=3)
    roles = (role("loader", 2, 0, sku=None), role("trainer", 1, 1, sku=None))
    run = run_to_the_end(engine(described), [(0, job("mixed", *roles, gang=False))], {"mixed": 3})
    assert run.began == {"mixed": [0, 0, 3]}


def test_a_waiting_job_without_gpus_holds_back_those_behind_it_where_nobody_passes() -> None:
    bare = cluster(node("a", cpu=4, keep_cpu=0, keep_memory=0), vision=4)
    nobody_passes = replace(bare, policy=Policy(backfill=False))
    made = running(nobody_passes, job("holder", role(gpus=0, cpu=3, sku=None), at=0))
    made.submit(job("large", role(gpus=0, cpu=2, sku=None), at=1))
    made.submit(job("small", role(gpus=0, cpu=1, sku=None), at=2))
    plan = made.plan(0)
    assert started(plan) == started(made.plan(0, with_reasons=False)) == []
    assert wait_of(plan, "small").reason.code == Code.ORDER


def test_a_task_on_loan_holds_up_later_jobs_and_not_the_other_tasks_of_its_own() -> None:
    """Its second worker runs on loan, for the quota is used up; its other task wants a pinned cell, which is free: it
    starts there by right, not on loan as well."""
    boxes = [node(name, 2, shape="box") for name in ("gpu01", "gpu02", "gpu03")]
    described = replace(
        cluster(*boxes),
        cell_types=(CellType("box", "A100", 2, node_level=True),),
        pinned_cells=(PinnedCell("mine", "box", "gpu01"),),
        virtual_clusters=(
            VirtualCluster("vision", (QuotaLine("box", 1),), pinned=("mine",)),
            VirtualCluster("speech", (QuotaLine("box", 1),)),
        ),
    )
    pinned = replace(role("other", gpus=2), pinned_cell="mine")
    made = running(described, job("before", pinned))
    made.submit(job("j", role(count=2, gpus=2), pinned, gang=False, order=1, borrow=Borrow.AUTO))
    made.advance(0)
    made.submit(job("later", pinned, order=2))
    made.finish("before")
    (start,) = made.plan(0).starts
    (placement,) = start.placements
    assert (start.job.id, placement.task.role) == ("j", "other")
    assert [use.virtual_cell for use in placement.leaves] == ["vision/pinned:mine/0/0", "vision/pinned:mine/0/1"]


def test_those_that_were_given_a_place_by_hand_come_first_in_their_class_in_the_order_of_their_places() -> None:
    by_hand = [job(name, at=at)._replace(led=True) for name, at in (("second", 1), ("first", 0))]
    four = cluster(node("a"), vision=3)
    plan = engine(four, job("earliest", at=-5), *by_hand, job("prod", priority=100, at=9)).plan(0)
    assert started(plan) == ["prod", "first", "second"]


def test_it_comes_before_one_for_which_cells_are_kept_and_before_users_who_used_less() -> None:
    made = running(replace(ONE, policy=Policy()), job("holder"))
    made.submit(job("kept", role(gpus=2), user="bob", at=1))
    assert made.plan(0).reservations == ("kept",)
    made.submit(job("by-hand", role(gpus=2), at=2)._replace(led=True))
    plan = made.plan(0)
    assert [wait.job.id for wait in plan.waits] == ["by-hand", "kept"]


def test_who_waits_behind_one_with_a_place_by_hand_is_told_so() -> None:
    made = running(ONE, job("holder"))
    made.submit(job("by-hand", role(gpus=2), at=5)._replace(led=True))
    made.submit(job("small", user="bob", at=2))
    reason = wait_of(made.plan(0), "small").reason
    assert (reason.code, reason.sentence) == (Code.ORDER, "1 job of the team comes first: 1 was moved ahead by a lead")
    assert reason.numbers["by_hand"] == 1

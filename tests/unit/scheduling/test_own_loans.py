"""A job that may borrow takes over what lower priorities of its team have on loan, and gives way to owners at once."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import (
    Borrow,
    Cluster,
    Engine,
    FirstToPay,
    Job,
    Plan,
    Policy,
    Preempt,
    Role,
    Rules,
    Running,
    Snapshot,
    Start,
    refusals,
)
from tests.unit.scheduling.builders import (
    cluster,
    give_back,
    job,
    node,
    role,
    start_of,
    victims_of,
    wait_of,
    with_rules,
)
from tests.unit.scheduling.playing import PASSES

HOUR = 3_600_000


def guest(name: str, *roles: Role, priority: int = 10, borrow: Borrow = Borrow.AUTO, **more: object) -> Job:
    return job(name, *roles, vc="guests", priority=priority, borrow=borrow, **more)  # type: ignore[arg-type]


def crit(*roles: Role, **more: object) -> Job:
    return guest("crit", *roles, priority=120, order=99, **more)  # type: ignore[arg-type]


def filled(described: Cluster, *jobs: Job) -> Engine:
    """An engine where these run, started one an hour."""
    made = Engine(described)
    for number, one in enumerate(jobs):
        made.submit(one)
        assert made.advance(number * HOUR).starts
    return made


def beside(lent: int, own: int = 1, **more: object) -> Cluster:
    """A node: GPUs of the owners, who want nothing, and of the guests."""
    return cluster(node("a", lent + own, **more), owners=lent, guests=own)  # type: ignore[arg-type]


def prod(gpus: int = 1) -> Job:
    """What fills the quota of the guests."""
    return guest("prod", role(gpus=gpus), priority=120)


def two_gpus(*jobs: Job) -> Engine:
    """One GPU of each team; the first job of the guests is in their quota, the second on loan."""
    return filled(beside(1), prod(), *jobs)


@pytest.mark.parametrize("test", [guest("test"), guest("test", priority=-1, borrow=Borrow.NEVER)], ids=["auto", "oppo"])
def test_takes_over_what_a_lower_priority_of_its_team_has_on_loan(test: Job) -> None:
    made = two_gpus(test._replace(grace_ms=30_000))
    made.submit(crit())
    plan = made.advance(2 * HOUR)
    assert victims_of(plan) == ["test"]
    reason = wait_of(made.plan(2 * HOUR), "crit").reason
    assert (reason.code, reason.numbers["first"], reason.numbers["gpus"]) == ("preempting", "test", 1)
    assert made.plan(2 * HOUR).answers == ()
    made.finish("test")
    start = start_of(made.plan(2 * HOUR + 1), "crit")
    assert [use.virtual_cell for use in start.placements[0].leaves] == [None]


@pytest.mark.parametrize(
    "asks",
    [
        crit(borrow=Borrow.NEVER),
        crit()._replace(priority=10),
        crit()._replace(vc="owners", priority=-1, borrow=Borrow.NEVER),
    ],
    ids=["may not borrow", "equal priority", "of another team"],
)
def test_nobody_ends_for_who_has_no_claim_to_it(asks: Job) -> None:
    made = two_gpus(guest("test"))
    made.submit(asks)
    assert made.plan(2 * HOUR).answers == ()


def test_nobody_ends_where_something_idles() -> None:
    made = filled(beside(2), prod(), guest("test"))
    made.submit(crit())
    plan = made.plan(2 * HOUR)
    assert ([start.job.id for start in plan.starts], plan.preemptions) == (["crit"], ())


def test_nobody_slips_in_and_its_team_pays_for_it() -> None:
    """Another team, with less on loan, wants the GPU too; it is kept until the victim is gone, for crit."""
    made = filled(
        cluster(node("a", 3), owners=1, guests=1, others=1),
        prod(), job("own", vc="others", priority=120), guest("test", grace=30_000),
    )  # fmt: skip
    made.submit(job("other", vc="others", priority=120, borrow=Borrow.AUTO))
    made.submit(crit())
    assert victims_of(made.advance(3 * HOUR)) == ["test"]
    made.finish("test")
    assert [start.job.id for start in made.advance(3 * HOUR + 1).starts] == ["crit"]


@pytest.mark.parametrize("gone", [False, True])
def test_the_owner_beats_it_at_once(gone: bool) -> None:
    made = two_gpus(guest("test", grace=30_000))
    made.submit(crit())
    made.advance(2 * HOUR)
    if gone:
        made.finish("test")
    owner = job("owner", vc="owners", order=100)
    before = made.snapshot()
    assert isinstance(made.decide(owner, 2 * HOUR + 1), Start if gone else Preempt), "asked alone, too"
    assert made.snapshot() == before
    made.submit(owner)
    plan = made.advance(2 * HOUR + 1)
    assert [one.job.id for one in plan.answers] == ["owner"]
    if not gone:
        made.finish("test")
        assert [start.job.id for start in made.advance(2 * HOUR + 2).starts] == ["owner"]
    assert wait_of(made.plan(2 * HOUR + 3), "crit").reason.code == "quota"


def test_whoever_lost_its_place_to_the_owner_finds_another() -> None:
    """The owner takes the GPU that is kept; before others are asked, crit gets the one that is idle by now."""
    made = filled(beside(2), prod(), guest("test"), job("owns", vc="owners"))
    made.submit(crit())
    made.advance(3 * HOUR)
    made.finish("test")
    made.finish("owns")
    made.submit(job("other", vc="owners", priority=-1, order=1))
    made.submit(job("owner", vc="owners", order=100))
    assert {"crit", "owner"} == {start.job.id for start in made.advance(3 * HOUR + 1).starts}


def test_its_own_quota_comes_first() -> None:
    made = two_gpus(guest("test", grace=30_000))
    made.submit(crit())
    made.advance(2 * HOUR)
    made.finish("prod")
    plan = made.advance(2 * HOUR + 1)
    (use,) = start_of(plan, "crit").placements[0].leaves
    assert use.virtual_cell is not None
    assert made.snapshot().claims == ()


def test_the_lowest_goes_first_then_the_least_loss_and_no_more_than_needed() -> None:
    made = filled(
        beside(4, 2), prod(2),
        guest("long", priority=0), guest("short", priority=0), guest("higher"), guest("fresh"),
    )  # fmt: skip
    for name, wants, gone in (("one", role(), ["short"]), ("two", role(gpus=2), ["long", "short"])):
        made.submit(crit(wants)._replace(id=name))
        assert victims_of(made.plan(5 * HOUR)) == gone
        made.finish(name)


@pytest.mark.parametrize("first_to_pay", FirstToPay)
def test_priority_comes_before_loss_whatever_the_policy(first_to_pay: FirstToPay) -> None:
    there = beside(2)
    there = replace(there, policy=Policy(first_to_pay=first_to_pay))
    made = filled(there, prod(), guest("low", priority=0), guest("high", priority=100))
    made.submit(crit())
    assert victims_of(made.plan(20 * HOUR)) == ["low"]


def test_a_gang_ends_and_starts_whole() -> None:
    """Where it would not find room for all of it, nobody ends."""
    there = cluster(*(node(name, 4) for name in "abc"), owners=6, guests=6)
    made = filled(
        there, guest("prod", role(count=3, gpus=2), priority=120),
        guest("gang", role(count=2, gpus=2), grace=30_000), guest("small"),
    )  # fmt: skip
    made.submit(job("owner", vc="owners", only=("b",)))
    assert made.advance(3 * HOUR).starts
    made.submit(crit(role(count=2, gpus=2)))
    assert victims_of(made.plan(3 * HOUR)) == ["gang"]
    made.submit(crit(role(count=3, gpus=2)))
    assert made.plan(3 * HOUR).answers == ()


def test_of_a_job_that_is_no_gang_only_the_tasks_that_are_needed_end() -> None:
    made = filled(beside(2), prod(), guest("parts", role(count=2), gang=False))
    made.submit(crit())
    (victim,) = made.plan(2 * HOUR).preemptions[0].victims
    assert (victim.job, len(victim.tasks)) == ("parts", 1)


def test_idle_gpus_and_loans_of_its_team_together() -> None:
    made = filled(beside(2, 2), prod(2), guest("test", grace=30_000))
    made.submit(crit(role(gpus=2)))
    plan = made.advance(2 * HOUR)
    assert (victims_of(plan), plan.starts) == (["test"], ())
    made.submit(job("other", vc="owners", priority=-1, order=100))
    assert made.advance(2 * HOUR).answers == ()
    made.finish("test")
    assert [start.job.id for start in made.advance(2 * HOUR + 1).starts] == ["crit"]


def test_limits_of_borrowing_count_the_loan_that_it_takes_over() -> None:
    """There are idle GPUs, but its team may have no more than one on loan."""
    made = filled(
        with_rules(beside(3, 2), guests=Rules(max_borrow={"A100": 1})), prod(2), guest("test", grace=30_000)
    )  # fmt: skip
    made.submit(crit(role(gpus=2)))
    assert made.plan(2 * HOUR).answers == ()
    made.finish("crit")
    made.submit(crit())
    assert victims_of(made.advance(2 * HOUR)) == ["test"]
    made.submit(guest("more", order=100))
    assert made.advance(2 * HOUR + 1).answers == ()
    made.finish("test")
    assert [start.job.id for start in made.advance(2 * HOUR + 2).starts] == ["crit"]


@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_cpu_and_memory_that_lower_priorities_have_on_loan(kind: str) -> None:
    """A GPU idles, but what crit needs beside it the other one has."""
    much, some = (role(cpu=20), role(cpu=16)) if kind == "cpu" else (role(memory=20), role(memory=16))
    there = beside(2, 1, cpu=48, memory=48, keep_cpu=0, keep_memory=0)
    made = filled(there, guest("prod", some, priority=120), guest("test", much, grace=30_000))
    made.submit(crit(some))
    plan = made.advance(2 * HOUR)
    assert victims_of(plan) == ["test"]
    for now in (1, 2):
        assert made.advance(2 * HOUR + now).answers == ()
    made.finish("test")
    assert [start.job.id for start in made.advance(2 * HOUR + 3).starts] == ["crit"]


def test_a_gang_with_tasks_without_gpus() -> None:
    there = cluster(node("a", 2, cpu=16, keep_cpu=0), node("c", 0, cpu=8), owners=1, guests=1)
    made = filled(there, prod(), guest("test", grace=30_000))
    made.submit(crit(role(), role("master", gpus=0, cpu=4, sku=None)))
    assert victims_of(made.advance(2 * HOUR)) == ["test"]
    made.finish("test")
    assert len(start_of(made.advance(2 * HOUR + 1), "crit").placements) == 2


def test_a_job_that_lost_loans_of_late_takes_over_only_what_was_lent_for_long() -> None:
    made = two_gpus(guest("test"))
    made.submit(crit()._replace(loans_lost=3))
    assert made.plan(HOUR + 7 * 60_000).answers == ()
    assert victims_of(made.plan(HOUR + 8 * 60_000)) == ["test"]


def test_in_a_chain_of_its_team_alone() -> None:
    there = cluster(node("a", 2), node("h", 2, "H100"), owners={"A100": 1, "H100": 1}, guests={"A100": 1, "H100": 1})
    made = filled(
        there, prod(), guest("prod h", role(sku="H100"), priority=120),
        guest("on a"), guest("on h", role(sku="H100")),
    )  # fmt: skip
    made.submit(crit(role(sku="H100")))
    assert victims_of(made.plan(4 * HOUR)) == ["on h"]


def test_whoever_is_on_its_way_out_anyway_goes_first() -> None:
    made = filled(beside(2), prod(), guest("low", priority=0), guest("ends"))
    ends = next(one for one in made.snapshot().running if one.job.id == "ends")
    made.leave("ends", [task.placement.task for task in ends.tasks])
    made.submit(crit())
    assert victims_of(made.plan(3 * HOUR)) == ["ends"]


@pytest.mark.parametrize("avoid", [(), ("a",)], ids=["own fault", "node's fault"])
def test_a_pause_that_keeps_cells_keeps_the_loan_until_the_owner_comes(avoid: tuple[str, ...]) -> None:
    made = two_gpus(guest("test"))
    made.submit(crit())
    made.advance(2 * HOUR)
    made.finish("test")
    made.submit(crit(paused=True, avoid=avoid))
    made.submit(guest("again", order=100))
    assert made.advance(2 * HOUR + 1).answers == ()
    assert len(made.snapshot().claims) == 1
    made.submit(job("owner", vc="owners", order=101))
    assert [start.job.id for start in made.advance(2 * HOUR + 2).starts] == ["owner"]
    assert made.snapshot().claims == ()


def test_a_claim_that_cannot_be_used_is_given_up() -> None:
    """The node fails before the victim is gone."""
    made = two_gpus(guest("test", grace=30_000))
    made.submit(crit())
    made.advance(2 * HOUR)
    made.set_node(node("a", 2, sick=(0, 1)))
    made.advance(2 * HOUR + 1)
    assert made.snapshot().claims == ()


def test_an_engine_that_follows_rows_is_the_same() -> None:
    made = two_gpus(guest("test", grace=30_000))
    made.submit(crit())
    followed = Engine.restore(made.snapshot())
    for now in (2 * HOUR, 2 * HOUR + 1, 2 * HOUR + 2):
        followed.follow(made.snapshot())
        assert followed.plan(now) == made.plan(now) == Engine.restore(made.snapshot()).plan(now)
        made.advance(now)
        if now == 2 * HOUR + 1:
            made.finish("test")
    assert "crit" in {one.job.id for one in made.snapshot().running}


@st.composite
def streams(draw: st.DrawFn) -> tuple[Cluster, list[tuple[Job, int | None]]]:
    """Owners who leave most of one or two nodes idle, guests who fight for it, and after each job which of those that
    run ends, if any."""
    count, own = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    limit = draw(st.none() | st.none() | st.integers(1, 3))
    there = cluster(*(node(f"n{number}", 4, cpu=32) for number in range(count)), owners=4 * count - own, guests=own)
    there = with_rules(there, guests=Rules(max_borrow={} if limit is None else {"A100": limit}))
    return there, [(draw(anybody(number)), draw(st.none() | st.integers(0, 9))) for number in range(16)]


@st.composite
def anybody(draw: st.DrawFn, number: int) -> Job:
    wants = [role(count=draw(st.integers(1, 2)), gpus=draw(st.sampled_from([1, 1, 2])), cpu=draw(st.integers(1, 10)))]
    if draw(st.integers(0, 5)) == 0:
        wants.append(role("master", gpus=0, cpu=draw(st.integers(1, 4)), sku=None))
    guests = draw(st.integers(0, 3)) > 0
    priority = draw(st.sampled_from([-1, 10, 100, 120])) if guests else 10
    borrow = Borrow.AUTO if guests and priority >= 0 else Borrow.NEVER
    return job(
        f"j{number:02}", *wants, vc="guests" if guests else "owners", priority=priority, order=number, at=number,
        gang=draw(st.booleans()), borrow=borrow, grace=1,
    )  # fmt: skip


@settings(max_examples=100)
@given(streams())
def test_in_any_world_only_lower_priorities_end_nobody_in_vain_and_owners_notice_nothing(
    world: tuple[Cluster, list[tuple[Job, int | None]]],
) -> None:
    """Victims leave a moment later. What they leave goes to whom they ended for, or to who has a right to it."""
    there, stream = world
    made = Engine(there)
    for now, (one, ends) in enumerate(stream):
        if not refusals(there, one):
            made.submit(one)
        for _ in range(PASSES):
            before = made.snapshot()
            plan = made.plan(now)
            check_plan(before, plan, now)
            made.carry_out(plan)
            assert Engine.restore(made.snapshot()).plan(now) == made.plan(now)
            if not plan.answers and not plan.promotions and not plan.releases:
                break
        else:
            raise AssertionError("every pass changes something")
        running = made.snapshot().running
        for victim in running:
            if tasks := tuple(task.placement.task for task in victim.tasks if task.leaving):
                give_back(made, victim.job.id, tasks)
        if running and ends is not None and running[ends % len(running)].job.id in names_of(made.snapshot().running):
            made.finish(running[ends % len(running)].job.id)


def names_of(running: tuple[Running, ...]) -> set[str]:
    return {one.job.id for one in running}


def check_plan(before: Snapshot, plan: Plan, now: int) -> None:
    running = {one.job.id: one for one in before.running}
    for preempt in (one for one in plan.preemptions if is_for_loan(one)):
        assert preempt.job.borrow is Borrow.AUTO
        for gone in preempt.victims:
            victim = running[gone.job]
            assert victim.job.vc == preempt.job.vc
            assert victim.job.priority < preempt.job.priority
            lost = [task.placement for task in victim.tasks if task.placement.task in gone.tasks]
            assert all(use.virtual_cell is None for place in lost for use in place.leaves)
            assert len(lost) == len(victim.tasks) or not victim.job.gang
    lent = {claim.leaf: claim for claim in before.claims if not claim.virtual_cell}
    starts = {start.job.id for start in plan.starts}
    by_right = {
        use.leaf for one in plan.answers for place in one.placements for use in place.leaves if use.virtual_cell
    }
    # Until who must end has ended, what it has on loan counts against what may be lent.
    told = {gone.job for preempt in plan.preemptions for gone in preempt.victims}
    leaving = any(
        one.job.id in told or task.leaving for one in before.running for task in one.tasks if one.job.vc == "guests"
    )
    ready = set() if leaving else {claim.claimant for claim in lent.values()}
    for name in ready - starts:
        mine = {claim.leaf for claim in lent.values() if claim.claimant == name}
        assert mine & by_right or name in {one.job.id for one in plan.answers}, f"who ended for {name} ended in vain"
    without = replace(before, claims=tuple(claim for claim in before.claims if claim.virtual_cell))
    assert answered(Engine.restore(without).plan(now), "owners") == answered(plan, "owners")


def is_for_loan(preempt: Preempt) -> bool:
    return any(use.virtual_cell is None for place in preempt.placements for use in place.leaves)


def answered(plan: Plan, vc: str) -> set[str]:
    return {one.job.id for one in plan.answers if one.job.vc == vc}

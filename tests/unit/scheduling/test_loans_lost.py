"""Whoever was sent away from a loan is lent again only what has idled: one-minute jobs end nobody time and again."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings

from scheduling import Borrow, Cluster, Engine, Freed, Job, Plan, refusals
from tests.unit.scheduling.builders import cluster, job, node, role, wait_of
from tests.unit.scheduling.playing import PASSES
from tests.unit.scheduling.test_cpu_shares import streams

MINUTE, HOUR = 60_000, 3_600_000
BORROWERS = {
    "auto": job("guest", role(cpu=8), vc="guests", borrow=Borrow.AUTO),
    "oppo": job("guest", role(cpu=8), vc="guests", priority=-1),
    "excess": job("guest", role(cpu=17), vc="guests"),
    "no GPUs": job("guest", role(gpus=0, cpu=20, sku=None), vc="guests", priority=-1),
}


class Rows:
    """An engine that is given each moment what a portal reads from its rows."""

    def __init__(self, described: Cluster) -> None:
        self.made = Engine(described)
        self.lost: dict[str, list[int]] = defaultdict(list)
        self.freed: dict[str, int] = {}
        self.freed_before: dict[str, int] = {}
        self.jobs: dict[str, Job] = {}

    def submit(self, one: Job) -> None:
        self.jobs[one.id] = one
        self.made.submit(one)

    def finish(self, name: str, now: int) -> None:
        for running in self.made.snapshot().running:
            leaves = running.tasks if running.job.id == name else ()
            self.freed |= {use.leaf: now for task in leaves for use in task.placement.leaves}
        self.made.finish(name)

    def look(self, now: int) -> Plan:
        """Plans of this moment, carried out until nothing more happens; the first of them. Who is ended for one is gone
        at once and waits again."""
        self.freed_before = dict(self.freed)
        first = self._plan(now)
        plan = first
        for _ in range(PASSES):
            self.made.carry_out(plan)
            for victim in (one for preempt in plan.preemptions for one in preempt.victims):
                self.lost[victim.job].append(now)
                self.finish(victim.job, now)
                self.made.submit(self.jobs[victim.job])
            plan = self._plan(now)
            if not plan.answers and not plan.promotions:
                return first
        raise AssertionError("every pass changes something")

    def _plan(self, now: int) -> Plan:
        snapshot = self.made.snapshot()
        lost = {name: sum(at > now - HOUR for at in times) for name, times in self.lost.items()}
        waiting = tuple(one._replace(loans_lost=lost.get(one.id, 0)) for one in snapshot.waiting)
        freed = tuple(Freed(leaf, at) for leaf, at in sorted(self.freed.items()))
        self.made = Engine.restore(replace(snapshot, waiting=waiting, freed=freed))
        return self.made.plan(now)

    def runs(self, name: str) -> bool:
        return any(one.job.id == name for one in self.made.snapshot().running)


@pytest.fixture(params=BORROWERS)
def beside(request: pytest.FixtureRequest) -> Rows:
    """A node of two GPUs with 16 CPU each, one of each team; a borrower runs."""
    rows = Rows(cluster(node("a", 2, cpu=32, keep_cpu=0), owners=1, guests=1))
    if request.param != "excess":
        rows.submit(job("tenant", role(cpu=8), vc="guests"))
        rows.look(0)
    rows.submit(BORROWERS[request.param])
    rows.look(0)
    assert rows.runs("guest")
    return rows


@pytest.mark.parametrize("every", [1, 3, 8])
def test_fifty_jobs_of_a_minute_each_end_a_borrower_a_few_times(beside: Rows, every: int) -> None:
    for number in range(50):
        now = (1 + number * every) * MINUTE
        beside.submit(job(f"short{number}", role(cpu=16), vc="owners", at=now, order=number))
        beside.look(now)
        assert beside.runs(f"short{number}"), "its right is not touched"
        beside.finish(f"short{number}", now + MINUTE)
        beside.look(now + MINUTE)
        for later in range(1, every):
            beside.look(now + later * MINUTE)
    hours = 1 + 50 * every // 60
    assert 1 <= len(beside.lost["guest"]) <= 6 * hours
    assert {name for name, times in beside.lost.items() if times} == {"guest"}


def test_it_is_lent_what_has_idled_long_enough_and_says_so_until_then(beside: Rows) -> None:
    beside.submit(job("short", role(cpu=16), vc="owners", at=MINUTE))
    beside.look(MINUTE)
    beside.finish("short", 2 * MINUTE)
    reason = wait_of(beside.look(4 * MINUTE - 1), "guest").reason
    assert (reason.code, reason.numbers) == ("loans_lost", {"times": 1, "minutes": 2})
    assert reason.sentence == (
        "what it had on loan was taken back once within an hour, so it is lent only what has idled for 2 minutes"
    )
    assert [start.job.id for start in beside.look(4 * MINUTE).starts] == ["guest"]


def test_while_there_is_too_little_cpu_that_is_the_reason() -> None:
    rows = Rows(cluster(node("a", 2, cpu=32, keep_cpu=0), owners=1, guests=1))
    rows.submit(BORROWERS["excess"])
    rows.look(0)
    rows.submit(job("long", role(cpu=16), vc="owners", at=MINUTE))
    rows.look(MINUTE)
    reason = wait_of(rows.look(MINUTE + 1), "guest").reason
    assert reason.code == "resources"
    assert reason.sentence.endswith("the node with the most room, a, has 16 CPU and 255 GB free")


def test_others_are_lent_it_at_once(beside: Rows) -> None:
    beside.submit(job("short", role(cpu=16), vc="owners", at=MINUTE))
    beside.look(MINUTE)
    beside.finish("short", 2 * MINUTE)
    beside.submit(BORROWERS["oppo"]._replace(id="other", order_id=5))
    assert [start.job.id for start in beside.look(2 * MINUTE).starts] == ["other"]


def test_who_waits_for_cpu_that_has_idled_holds_up_nobody_of_its_team() -> None:
    rows = Rows(cluster(node("a", 3, cpu=48, keep_cpu=0), owners=1, guests=2))
    for one in (
        BORROWERS["excess"],
        job("thrifty", role(cpu=16), vc="guests"),
        job("short", role(cpu=16), vc="owners"),
    ):
        rows.submit(one)
        rows.look(0)
    assert rows.lost["guest"] == [0]
    rows.finish("short", MINUTE)
    rows.submit(job("later", role(cpu=8), vc="guests", at=MINUTE, order=2))
    plan = rows.look(MINUTE)
    assert [start.job.id for start in plan.starts] == ["later"]
    assert wait_of(plan, "guest").reason.code == "loans_lost"


def test_the_wait_is_bounded() -> None:
    assert [job("a")._replace(loans_lost=times).rest_ms // MINUTE for times in (0, 1, 2, 5, 6, 5000)] == [
        0, 2, 4, 32, 32, 32,
    ]  # fmt: skip


@settings(max_examples=60)
@given(streams())
def test_in_any_world_it_comes_to_rest_and_nothing_is_lent_before_it_has_idled(
    world: tuple[Cluster, list[tuple[Job, int | None]]],
) -> None:
    there, stream = world
    rows = Rows(there)
    for number, (one, ends) in enumerate(stream):
        now = number * MINUTE
        if not refusals(there, one):
            rows.submit(one)
        check_rested(rows.look(now), rows, now)
        running = rows.made.snapshot().running
        if running and ends is not None:
            rows.finish(running[ends % len(running)].job.id, now)


def check_rested(plan: Plan, rows: Rows, now: int) -> None:
    for start in plan.starts:
        for use in (use for one in start.placements for use in one.leaves if use.virtual_cell is None):
            assert now - rows.freed_before.get(use.leaf, -HOUR) >= start.job.rest_ms, (start.job, use)

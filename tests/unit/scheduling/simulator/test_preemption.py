"""Lending and taking back, on traces small enough to be worked by hand."""

from scheduling.model.job import Standing
from scheduling.simulator.loop import Happening
from scheduling.simulator.policies import Result, Settings, Sharing, simulate
from scheduling.simulator.timeline import Moment, timeline
from tests.unit.scheduling.simulator.traces import equal_nodes, of, row, run, times, trace

HALVES = equal_nodes(2, 1, vision=1, speech=1)
RECLAIM = (row("v1", 0, 100), row("v2", 0, 100), row("s1", 30, 50, vc="speech"))
"""v2 runs on the GPU of the team speech until s1 wants it at 30."""


def happened(result: Result, name: str) -> list[tuple[float, Happening, Standing | None]]:
    """What happened to one job, and by what right it held its GPUs afterwards."""
    return [(one.at_ms / 1000, one.happening, one.standing) for one in result.events if one.job.id == name]


def test_a_victim_whose_work_is_kept_goes_on_for_the_price_of_a_restart() -> None:
    result = run(HALVES, Sharing.CAPACITY, *RECLAIM)
    assert times(result) == {"v1": [(0, 100)], "v2": [(0, 30), (80, 157)], "s1": [(30, 80)]}
    victim = of(result, "v2")
    assert (victim.preemptions, victim.lost_ms, victim.queue_ms) == (1, 7_000, 57_000)


def test_a_victim_whose_work_is_lost_begins_anew() -> None:
    result = run(HALVES, Sharing.CAPACITY, *RECLAIM, work_kept=False)
    assert times(result) == {"v1": [(0, 100)], "v2": [(0, 30), (80, 180)], "s1": [(30, 80)]}
    assert (of(result, "v2").preemptions, of(result, "v2").lost_ms) == (1, 30_000)


def test_a_victim_works_on_in_its_grace_and_the_owner_waits_for_it() -> None:
    result = run(HALVES, Sharing.CAPACITY, *RECLAIM, grace_ms=10_000)
    assert times(result) == {"v1": [(0, 100)], "v2": [(0, 40), (90, 157)], "s1": [(40, 90)]}


def test_a_victim_that_ends_in_its_grace_is_not_preempted() -> None:
    rows = (row("v1", 0, 100), row("v2", 0, 35), row("s1", 30, 50, vc="speech"))
    result = run(HALVES, Sharing.CAPACITY, *rows, grace_ms=10_000)
    assert times(result) == {"v1": [(0, 100)], "v2": [(0, 35)], "s1": [(35, 85)]}
    assert (of(result, "v2").preemptions, of(result, "v2").lost_ms) == (0, 0)


def test_a_borrower_is_promoted_where_it_is_when_its_turn_comes() -> None:
    result = run(HALVES, Sharing.CAPACITY, *RECLAIM)
    assert happened(result, "v2") == [
        (0, Happening.SUBMIT, None),
        (0, Happening.START, Standing.BORROWED),
        (30, Happening.PREEMPT, Standing.BORROWED),
        (30, Happening.STOP, None),
        (80, Happening.START, Standing.BORROWED),
        (100, Happening.PROMOTE, Standing.GUARANTEED),
        (157, Happening.FINISH, None),
    ]
    assert [one.cause for one in result.events if one.happening is Happening.PREEMPT] == ["s1"]


def test_without_promotion_a_borrower_stays_on_loan_and_keeps_no_turn() -> None:
    settings = Settings(quota_in_gpus=True, promotion=False)
    result = simulate(HALVES, trace(HALVES, *RECLAIM, row("v3", 90, 10)), settings)
    assert [one.happening for one in result.events if one.job.id == "v2"].count(Happening.PROMOTE) == 0
    assert times(result)["v3"] == [(100, 110)]


def test_the_timeline_tells_the_borrowed_gpus_apart() -> None:
    result = run(HALVES, Sharing.CAPACITY, *RECLAIM)
    assert timeline(result.events) == [
        Moment(0, 1, 1, 0, 0),
        Moment(30_000, 2, 0, 1, 1),
        Moment(80_000, 1, 1, 0, 0),
        Moment(100_000, 1, 0, 0, 0),
        Moment(157_000, 0, 0, 0, 0),
    ]


def test_a_higher_priority_of_the_same_team_preempts_under_every_sharing_but_the_pool() -> None:
    cluster = equal_nodes(1, 4, vision=1)
    rows = (row("low", 0, 100, 4), row("high", 20, 50, 4, priority=100))
    preempted = {"low": [(0, 20), (70, 180)], "high": [(20, 70)]}
    for sharing in (Sharing.PRIVATE, Sharing.QUOTA, Sharing.CAPACITY):
        assert times(run(cluster, sharing, *rows)) == preempted
    assert times(run(cluster, Sharing.FIFO, *rows)) == {"low": [(0, 100)], "high": [(100, 150)]}


def test_an_opportunistic_job_of_the_trace_borrows_and_is_never_promoted() -> None:
    rows = (row("o", 0, 100, 1, priority=-1), row("v", 10, 20, 1))
    result = run(equal_nodes(1, 1, vision=1), Sharing.CAPACITY, *rows)
    assert times(result) == {"o": [(0, 10), (30, 127)], "v": [(10, 30)]}
    assert {standing for _, _, standing in happened(result, "o")} == {None, Standing.BORROWED}


def test_the_books_preemption_gives_an_application_its_share_at_once() -> None:
    """T5b of the worked examples: App1 has all 8 GPUs when App2 arrives at 50 s and owns half of them."""
    cluster = equal_nodes(2, 4, q1=1, q2=1)
    rows = [row(f"app1-{number}", 0, 100, 1, vc="q1") for number in range(8)]
    rows += [row(f"app2-{number}", 50, 200, 1, vc="q2") for number in range(4)]
    without, preempting = run(cluster, Sharing.FIFO, *rows), run(cluster, Sharing.CAPACITY, *rows)
    t2, t3 = _end(without, "app1"), _end(without, "app2")
    t2_later, t3_sooner = _end(preempting, "app1"), _end(preempting, "app2")
    assert (t2, t2_later, t3_sooner, t3) == (100, 157, 250, 300)
    busy = [(one.at_ms, one.guaranteed + one.borrowed) for one in timeline(preempting.events)]
    assert all(gpus == 8 for at_ms, gpus in busy if at_ms < 157_000)


def _end(result: Result, application: str) -> float:
    ends = [one.finish_ms for one in result.outcomes if one.job.id.startswith(application)]
    return max(end for end in ends if end is not None) / 1000

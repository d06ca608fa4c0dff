"""Start estimates: the engine run forward with run times that may come true."""

from dataclasses import replace
from random import Random

import pytest

from scheduling import Engine, JobRefused, Preempt, Snapshot, Start, Wait
from scheduling.forecast.estimate import Estimate, Round, estimates, outlook, what_if
from scheduling.forecast.runtimes import PastRun, RunTimes
from scheduling.model.job import Job
from tests.unit.scheduling.builders import carry_out, cluster, engine, job, node, role, running

MINUTE = 60_000
HOUR = 60 * MINUTE


def past(*minutes: float, vc: str = "vision", user: str = "alice", gpus: int = 1) -> list[PastRun]:
    return [PastRun(vc, user, gpus, int(one * MINUTE)) for one in minutes]


ALWAYS_AN_HOUR = RunTimes(past(*[60] * 20))


def one_gpu(*waiting: Job) -> Snapshot:
    """A GPU on which `first` runs since 0, and who waits for it."""
    made = running(cluster(node("n0", 1), vision=1), job("first"))
    for number, one in enumerate(waiting, start=1):
        made.submit(one._replace(order_id=number))
    return made.snapshot()


def test_jobs_start_one_after_the_other_when_those_before_them_end() -> None:
    state = one_gpu(job("second"), job("third"))
    found = estimates(state, 30 * MINUTE, ALWAYS_AN_HOUR)
    assert found == {"second": Estimate(HOUR, HOUR), "third": Estimate(2 * HOUR, 2 * HOUR)}


def test_run_times_that_differ_make_a_range() -> None:
    state = one_gpu(job("second"))
    found = estimates(state, 0, RunTimes(past(*range(1, 41))))["second"]
    assert found.p50_ms == pytest.approx(20 * MINUTE, abs=2 * MINUTE)
    assert found.p90_ms == pytest.approx(36 * MINUTE, abs=2 * MINUTE)


def test_a_job_that_starts_now_is_estimated_for_now() -> None:
    state = engine(cluster(node("n0"), vision=4), job("a")).snapshot()
    assert estimates(state, 5, RunTimes()) == {"a": Estimate(5, 5)}


def test_below_twenty_comparable_runs_and_without_limits_there_is_no_estimate_yet() -> None:
    state = one_gpu(job("second"))
    assert estimates(state, 0, RunTimes(past(*[60] * 19))) == {}
    assert estimates(state, 0, RunTimes(past(*[60] * 20, vc="speech"))) == {}


def test_time_limits_alone_give_an_estimate_within_them() -> None:
    state = one_gpu(job("second"))
    (first,) = state.running
    limited = replace(state, running=(first._replace(job=first.job._replace(time_limit_ms=10 * HOUR)),))
    found = estimates(limited, 2 * HOUR, RunTimes())["second"]
    assert found.p50_ms == pytest.approx(6 * HOUR, abs=HOUR / 2)
    assert found.p90_ms == pytest.approx(9.2 * HOUR, abs=HOUR / 2)


def test_what_waits_for_a_job_that_nobody_can_judge_has_no_estimate_though_others_have() -> None:
    made = running(cluster(node("n0", 2), vision=2), job("known"), job("unknown", vc="vision", user="bob"))
    made.submit(job("second"))
    made.submit(job("both", role(gpus=2), order=1))
    lists = RunTimes([*past(*[60] * 20)])
    state = made.snapshot()
    strange = [
        one._replace(job=one.job._replace(vc="gone", user="x")) for one in state.running if one.job.id != "known"
    ]
    state = replace(state, running=(state.running[0], *strange))
    assert estimates(state, 0, lists) == {"second": Estimate(HOUR, HOUR)}


def test_the_nearest_twenty_runs_are_the_ones_compared() -> None:
    runs = RunTimes(
        [
            *past(*[10] * 20, gpus=1),
            *past(*[20] * 20, gpus=8),
            *past(*[30] * 20, user="bob", gpus=1),
            *past(*[40] * 20, user="bob", gpus=64),
        ]
    )
    asked = [("alice", 1), ("alice", 8), ("alice", 64), ("new", 1), ("new", 64), ("new", 128)]
    times = [runs.of(job("a", role(gpus=gpus), user=user), 0, 0.5) for user, gpus in asked]
    assert times == [one * MINUTE for one in (10, 20, 20, 30, 40, 30)]
    assert runs.of(job("a", vc="speech"), 0, 0.5) is None


def test_an_elastic_job_is_compared_by_the_size_of_its_gang() -> None:
    runs = RunTimes([*past(*[10] * 20, gpus=2), *past(*[20] * 20, gpus=16)])
    assert runs.of(job("a", role(count=8, gpus=2, least=1)), 0, 0.5) == 10 * MINUTE


def test_a_job_is_compared_with_those_that_ran_longer_than_it_has() -> None:
    runs = RunTimes(past(*range(1, 41)))
    assert runs.of(job("a"), 30 * MINUTE, 0.5) == 36 * MINUTE
    old = runs.of(job("a"), 100 * MINUTE, 0.5)
    assert old == 200 * MINUTE, "who ran longer than all goes on for as long again, at the median"


def test_nobody_runs_beyond_the_limit() -> None:
    runs, limited = RunTimes(past(*[600] * 20)), job("a")._replace(time_limit_ms=HOUR)
    assert runs.of(limited, 0, 0.9) == HOUR
    assert runs.of(limited, HOUR + 5, 0.9) == HOUR + 6, "its end is being waited for"


def test_a_task_that_leaves_is_gone_after_its_grace() -> None:
    state = one_gpu(job("second"))
    (first,) = state.running
    leaving = tuple(task._replace(leaving=True) for task in first.tasks)
    state = replace(state, running=(first._replace(job=first.job._replace(grace_ms=30_000), tasks=leaving),))
    assert estimates(state, 7, RunTimes()) == {"second": Estimate(30_007, 30_007)}


def test_who_waits_for_a_job_to_end_starts_after_it() -> None:
    made = running(cluster(node("n0"), vision=4), job("first"))
    made.submit(job("second", after=("first",)))
    found = estimates(made.snapshot(), 0, ALWAYS_AN_HOUR)
    assert found == {"second": Estimate(HOUR, HOUR)}


def test_extra_tasks_of_an_elastic_job_are_in_nobodys_way() -> None:
    made = running(cluster(node("n0"), vision=4), job("elastic", role(count=4, least=1), grace=HOUR))
    assert [len(start.placements) for start in carry_out(made).starts] == [3]
    made.submit(job("second", role(count=3)))
    made.carry_out(made.plan(5))
    assert estimates(made.snapshot(), 5, RunTimes()) == {"second": Estimate(5, 5)}


def test_tasks_of_a_job_that_is_no_gang_make_room_one_by_one() -> None:
    made = Engine(cluster(node("n0", 2), vision=2))
    made.submit(job("many", role(count=3), gang=False))
    carry_out(made, 0)
    made.submit(job("after", order=1))
    lists = RunTimes([*past(*[60] * 20, gpus=3), *past(*[60] * 20)])
    found = estimates(made.snapshot(), 0, lists)
    assert found == {"many": Estimate(HOUR, HOUR), "after": Estimate(HOUR, HOUR)}


def test_ends_that_come_close_together_are_late_by_no_more_than_a_thirtieth() -> None:
    made = Engine(cluster(node("n0", 4), vision=4))
    for number in range(4):
        made.submit(job(f"r{number}"))
        carry_out(made, number * 30_000)
    made.submit(job("next", order=1))
    found = estimates(made.snapshot(), 90_000, ALWAYS_AN_HOUR)["next"]
    assert HOUR <= found.p50_ms <= HOUR + HOUR // 32


def test_the_same_state_gives_the_same_estimates() -> None:
    state = one_gpu(*(job(f"j{number}") for number in range(5)))
    runs = RunTimes(past(*range(1, 41)))
    assert estimates(state, 0, runs) == estimates(state, 0, runs)


class Clock:
    """Each look at it takes a part of the time."""

    def __init__(self, each: float) -> None:
        self.now, self.each = 0.0, each

    def __call__(self) -> float:
        self.now += self.each
        return self.now


def test_when_the_time_is_over_before_the_runs_are_there_is_no_estimate() -> None:
    made = running(cluster(node("n0", 2), vision=2), job("first"))
    made.submit(job("now", order=1))
    made.submit(job("later", order=2))
    assert estimates(made.snapshot(), 0, ALWAYS_AN_HOUR, spent=lambda: 1.1) == {}
    assert estimates(made.snapshot(), 0, ALWAYS_AN_HOUR, spent=Clock(0.3)) == {}


def test_a_run_that_takes_too_long_tells_of_those_that_start_first() -> None:
    state = one_gpu(*(job(f"j{number}") for number in range(8)))
    found = estimates(state, 0, ALWAYS_AN_HOUR, spent=Clock(1 / 90))
    assert {"j0", "j1"} <= found.keys() < {f"j{number}" for number in range(8)}


def test_a_short_time_answers_the_front_of_the_queue() -> None:
    state = one_gpu(*(job(f"j{number}") for number in range(8)))
    rounds = (Round(2), Round(8, 0.01))
    found = estimates(state, 0, ALWAYS_AN_HOUR, rounds=rounds, spent=Clock(1e-4))
    assert len(found) == 8
    found = estimates(state, 0, ALWAYS_AN_HOUR, rounds=rounds, spent=Clock(1e-3))
    assert found == {"j0": Estimate(HOUR, HOUR), "j1": Estimate(2 * HOUR, 2 * HOUR)}


def test_who_waits_behind_the_last_round_gets_no_estimate() -> None:
    state = one_gpu(*(job(f"j{number}") for number in range(6)))
    found = estimates(state, 0, ALWAYS_AN_HOUR, rounds=[Round(4)])
    assert sorted(found) == ["j0", "j1", "j2", "j3"]


def test_the_range_is_as_wide_as_what_really_happens() -> None:
    """Run times drawn from what users did before: nine of ten starts come by p90, about half by p50."""
    draw = Random(1)
    lengths = [draw.lognormvariate(3, 1) for _ in range(400)]
    runs = RunTimes(past(*lengths))
    by_half = by_most = 0
    trials = 150
    for _ in range(trials):
        found = estimates(one_gpu(job("second"), job("third")), 0, runs)["third"]
        really = int((draw.choice(lengths) + draw.choice(lengths)) * MINUTE)
        by_half += really <= found.p50_ms
        by_most += really <= found.p90_ms
    assert 0.4 <= by_half / trials <= 0.6
    assert 0.8 <= by_most / trials <= 0.97


def test_what_if_says_what_would_become_of_one_job_more_and_changes_nothing() -> None:
    state = one_gpu(job("second"))
    found = what_if(state, job("mine", order=9), 0, ALWAYS_AN_HOUR)
    assert isinstance(found.answer, Wait)
    assert found.answer.place == 2
    assert found.estimate == Estimate(2 * HOUR, 2 * HOUR)
    ahead = what_if(state, job("mine", at=-1), 0, ALWAYS_AN_HOUR)
    assert isinstance(ahead.answer, Wait)
    assert (ahead.answer.place, ahead.estimate) == (1, Estimate(HOUR, HOUR))
    assert estimates(state, 0, ALWAYS_AN_HOUR) == {"second": Estimate(HOUR, HOUR)}


def test_what_if_says_that_a_job_would_take_back_the_cells_of_a_lower_one() -> None:
    state = one_gpu()
    (first,) = state.running
    state = replace(state, running=(first._replace(job=first.job._replace(grace_ms=30_000)),))
    found = what_if(state, job("mine", priority=100), 0, ALWAYS_AN_HOUR)
    assert isinstance(found.answer, Preempt)
    assert found.estimate == Estimate(30_000, 30_000)


def test_who_is_preempted_waits_again_at_its_old_place() -> None:
    """Before those of its user who came later, were cells kept for one of them or not."""
    state = one_gpu(job("second"), job("third"), job("urgent", priority=100))
    (first,) = state.running
    state = replace(state, running=(first._replace(job=first.job._replace(grace_ms=30_000)),))
    found = estimates(state, 0, ALWAYS_AN_HOUR)
    starts = {"urgent": 30_000, "second": 30_000 + 2 * HOUR, "third": 30_000 + 3 * HOUR}
    assert found == {name: Estimate(at, at) for name, at in starts.items()}


def test_who_was_told_to_leave_for_another_waits_again_when_it_is_gone() -> None:
    made = running(cluster(node("n0", 1), vision=1), job("first")._replace(grace_ms=30_000))
    made.submit(job("urgent", priority=100))
    made.advance(0)
    made.submit(job("second", order=1))
    made.submit(job("third", order=2))
    found = estimates(made.snapshot(), 0, ALWAYS_AN_HOUR)
    starts = {"urgent": 30_000, "second": 30_000 + 2 * HOUR, "third": 30_000 + 3 * HOUR}
    assert found == {name: Estimate(at, at) for name, at in starts.items()}


def test_users_take_turns_in_what_is_run_forward_as_they_really_do() -> None:
    state = one_gpu(job("again"), job("bobs", user="bob"))
    found = estimates(state, 0, RunTimes([*past(*[60] * 20), *past(*[60] * 20, user="bob")]))
    assert found == {"bobs": Estimate(HOUR, HOUR), "again": Estimate(2 * HOUR, 2 * HOUR)}


def test_what_if_names_the_place_of_a_job_that_would_start_at_once() -> None:
    state = engine(cluster(node("n0"), vision=4)).snapshot()
    found = what_if(state, job("mine"), 3, RunTimes())
    assert isinstance(found.answer, Start)
    assert [placement.node for placement in found.answer.placements] == ["n0"]
    assert found.estimate == Estimate(3, 3)


def test_what_if_refuses_what_can_never_run() -> None:
    with pytest.raises(JobRefused):
        what_if(one_gpu(), job("mine", role(gpus=2)), 0, RunTimes())


def test_who_has_no_estimate_is_told_whose_run_times_nobody_knows() -> None:
    """Of its team alone where the team's quota is used up; and of those that want the same hardware."""
    described = cluster(node("n0", 2), node("h0", 1, "H100"), vision={"A100": 1, "H100": 1}, speech={"A100": 1})
    mine, theirs = job("mine", role(sku="A100")), job("theirs", role(sku="A100"), vc="speech")
    made = running(described, mine, theirs, job("other", role(sku="H100"), order=1))
    made.submit(job("second", role(sku="A100"), order=2))
    made.submit(job("third", role(sku="A100"), order=3)._replace(time_limit_ms=HOUR))
    made.submit(job("lent", role(sku="A100"), priority=-1, order=4))
    found = outlook(made.snapshot(), 0, RunTimes())
    assert found.estimates == {}
    assert found.endless == {"second": ("mine",), "third": ("mine",), "lent": ("mine", "theirs")}


def test_a_job_ahead_that_waits_itself_may_be_the_one_without_a_time_limit() -> None:
    state = one_gpu(job("second"), job("third"))
    (first,) = state.running
    limited = replace(state, running=(first._replace(job=first.job._replace(time_limit_ms=HOUR)),))
    found = outlook(limited, 0, RunTimes())
    assert set(found.estimates) == {"second"}
    assert found.endless == {"third": ("second",)}


def test_who_waits_for_bad_nodes_waits_for_no_job() -> None:
    made = running(cluster(node("n0", 2), vision=2), job("first"))
    made.set_node(node("n0", 2, sick=(0, 1)))
    made.submit(job("second"))
    assert outlook(made.snapshot(), 0, RunTimes()).endless == {}

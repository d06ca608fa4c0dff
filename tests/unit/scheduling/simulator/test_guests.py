"""Sessions whose person goes away, and jobs that share a GPU, on traces small enough to be worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.guests import HOUR_MS, GroupRule, Idle, SessionRule
from scheduling.simulator.loop import Happening, Outcome
from scheduling.simulator.policies import Result, Settings, simulate
from tests.unit.scheduling.simulator.test_properties import CLUSTER, check_nodes, rows
from tests.unit.scheduling.simulator.traces import equal_nodes, of, row, times, trace

HOUR = 3600


def played(settings: Settings, *lines: str, gpus: int = 1, **owned: int) -> Result:
    cluster = equal_nodes(sum(owned.values()) or 1, gpus, **(owned or {"vision": 1}))
    return simulate(cluster, trace(cluster, *lines), settings)


def session(idle: Idle) -> Settings:
    """Every one-GPU job is a session that computes the first hour of four."""
    return Settings(sessions=SessionRule(1.0, 0.25, idle))


ONLY_ONE = 0.3
"""The share to which the job `session` belongs by its id, and neither `guest` nor `long`."""


def returns(result: Result, name: str) -> list[float]:
    return [one / 1000 for one in of(result, name).returns_ms]


# Sessions


def test_a_session_that_is_left_alone_keeps_its_idle_gpu() -> None:
    result = played(session(Idle.HOLD), row("s", 0, 9 * HOUR))
    assert times(result)["s"] == [(0, 9 * HOUR)]
    assert of(result, "s").idle_ms == 6 * HOUR_MS


def test_a_session_is_stopped_after_an_idle_hour_and_waits_anew_when_its_person_is_back() -> None:
    result = played(session(Idle.STOP), row("s", 0, 9 * HOUR), row("t", 3 * HOUR, 1.5 * HOUR))
    assert times(result)["s"] == [(0, 2 * HOUR), (4.5 * HOUR, 6.5 * HOUR), (8.5 * HOUR, 9.5 * HOUR)]
    assert returns(result, "s") == [0.5 * HOUR, 0]
    assert of(result, "s").idle_ms == 2 * HOUR_MS
    assert of(result, "s").finish_ms == 9.5 * HOUR_MS


def test_a_session_whose_person_does_not_come_back_in_its_time_is_over() -> None:
    result = played(session(Idle.STOP), row("s", 0, 3 * HOUR))
    assert (times(result)["s"], of(result, "s").finish_ms) == ([(0, 2 * HOUR)], 3 * HOUR_MS)


def test_a_parked_session_has_its_gpu_back_within_a_switch_and_its_guest_goes() -> None:
    lines = (row("session", 0, 5 * HOUR), row("guest", 60, 1.5 * HOUR), row("long", 120, HOUR))
    result = played(Settings(sessions=SessionRule(ONLY_ONE, 0.25, Idle.PARK)), *lines)
    assert times(result)["session"] == [(0, 5 * HOUR + 15)]
    assert returns(result, "session") == [15]
    assert times(result)["guest"] == [(2 * HOUR, 3.5 * HOUR)]
    assert times(result)["long"] == [(3.5 * HOUR, 4 * HOUR), (5 * HOUR + 15, 5.5 * HOUR + 22)]
    assert [of(result, name).preemptions for name in ("session", "guest", "long")] == [0, 0, 1]
    assert of(result, "session").idle_ms == HOUR_MS


# Groups


def group(most: int, slowdown: float = 0.0, *, turns: bool = False) -> Settings:
    return Settings(groups=GroupRule(most, slowdown, turns))


def test_jobs_in_halves_run_beside_each_other_at_the_price_of_the_slowdown() -> None:
    lines = (row("a", 0, 100), row("b", 0, 100), row("c", 0, 100))
    for slowdown, ends in [(0.0, [100, 100, 200]), (0.5, [200, 200, 300])]:
        result = played(group(2, slowdown), *lines)
        assert [(one.finish_ms or 0) / 1000 for one in result.outcomes] == ends


def test_in_turns_each_has_its_part_of_the_time_less_the_switches() -> None:
    result = played(group(4, turns=True), row("a", 0, 950), row("b", 0, 950))
    assert {of(result, name).finish_ms for name in "ab"} == {2_000_000}
    assert (of(result, "a").first_output_ms, of(result, "b").first_output_ms) == (None, 300_000)


def test_a_lonely_job_of_a_group_is_as_fast_as_any() -> None:
    result = played(group(2, 0.5), row("a", 0, 100), row("b", 0, 50))
    assert of(result, "b").finish_ms == 100_000
    assert of(result, "a").finish_ms == 150_000


def test_who_was_a_guest_has_the_gpu_when_its_host_has_ended() -> None:
    result = played(group(2), row("a", 0, 100), row("b", 10, 200), row("c", 20, 50, vc="vision"))
    assert [(one.start_ms / 1000, one.gpus) for one in of(result, "b").attempts] == [(10, 0), (100, 1)]
    assert times(result)["c"] == [(100, 150)]


def test_guests_go_with_a_host_that_is_preempted_and_take_nothing_from_other_teams() -> None:
    lines = (row("v1", 0, 100), row("v2", 0, 100), row("v3", 0, 100), row("v4", 0, 100))
    result = played(group(2), *lines, row("s1", 30, 50, vc="speech"), vision=1, speech=1)
    assert times(result)["s1"] == [(30, 80)]
    gone = {one.job.id for one in result.outcomes if one.preemptions}
    assert len(gone) == 2


def test_who_is_left_alone_on_a_gpu_is_as_fast_as_any() -> None:
    result = played(group(2, 0.5), row("a", 0, 100), row("b", 0, 200))
    assert (of(result, "a").finish_ms, of(result, "b").finish_ms) == (200_000, 300_000)


@pytest.mark.parametrize("most", [2, 4])
def test_no_group_is_larger_than_the_rule(most: int) -> None:
    result = played(group(most), *(row(f"v{number}", 0, 100) for number in range(6)))
    assert sum(one.first_start_ms == 0 for one in result.outcomes) == most


def test_a_group_is_of_one_team() -> None:
    lines = (row("v", 0, 100), *(row(f"s{number}", 0, 100, vc="speech") for number in range(3)))
    result = played(group(2, 0.5), *lines, vision=1, speech=1)
    assert of(result, "v").finish_ms == 100_000
    assert [of(result, f"s{number}").first_start_ms for number in range(2)] == [0, 0]


RULES = [
    Settings(groups=GroupRule(2, 0.3), quota_in_gpus=True),
    Settings(groups=GroupRule(4, turns=True), quota_in_gpus=True, work_kept=False),
    *(Settings(sessions=SessionRule(0.5, 0.25, idle), quota_in_gpus=True) for idle in Idle),
]


@given(rows(priorities=(-1, 10, 100)), st.sampled_from(RULES), st.sampled_from([60, 1800]))
def test_every_job_ends_and_no_gpu_is_held_twice(lines: list[str], settings: Settings, longer: int) -> None:
    """The jobs last `longer` times as long, so that sessions go idle."""
    jobs = trace(CLUSTER, *(_longer(line, longer) for line in lines))
    result = simulate(CLUSTER, jobs, settings)
    check_nodes(result)
    for one in result.outcomes:
        assert one.finish_ms is not None
        assert 0 <= one.idle_ms <= _held(one)
        assert all(first.end_ms <= then.start_ms for first, then in zip(one.attempts, one.attempts[1:], strict=False))  # type: ignore[operator]
    assert sum(one.happening is Happening.FINISH for one in result.events) <= len(jobs)


def _longer(line: str, times: int) -> str:
    fields = line.split(",")
    fields[9] = str(int(fields[9]) * times)
    return ",".join(fields)


def _held(one: Outcome) -> int:
    return sum((attempt.end_ms or 0) - attempt.start_ms for attempt in one.attempts) * one.job.gpus

"""Victims that are parked, on traces small enough to be worked by hand."""

import pytest

from scheduling.simulator.loop import Happening
from scheduling.simulator.parking import Home, ParkRule, Price, Queueing
from scheduling.simulator.policies import Result, Settings, simulate
from tests.unit.scheduling.simulator.traces import equal_nodes, of, row, times, trace

HALVES = equal_nodes(2, 1, vision=1, speech=1)
RECLAIM = (row("v1", 0, 100), row("v2", 0, 100), row("s1", 30, 50, vc="speech"))
"""v2 runs on the GPU of the team speech until s1 wants it at 30."""


def parked(rule: ParkRule, *rows: str, nodes: int = 2, gpus: int = 1, **owned: int) -> Result:
    """The rows with work lost but for what the rule parks."""
    cluster = equal_nodes(nodes, gpus, **(owned or {"vision": 1, "speech": 1}))
    return simulate(cluster, trace(cluster, *rows), Settings(work_kept=False, quota_in_gpus=True, park=rule))


def told(result: Result, name: str) -> tuple[int, int, int]:
    """How often a job was preempted and parked, and the seconds that it lost."""
    outcome = of(result, name)
    return outcome.preemptions, outcome.parked, outcome.lost_ms // 1000


@pytest.mark.parametrize("queueing", list(Queueing))
@pytest.mark.parametrize("home", list(Home))
def test_a_parked_victim_goes_on_at_home_for_the_price_of_two_switches(home: Home, queueing: Queueing) -> None:
    result = parked(ParkRule(1, home, queueing=queueing), *RECLAIM)
    assert times(result)["v2"] == [(0, 30), (80, 180)]
    assert told(result, "v2") == (1, 1, 30)


def test_what_starts_elsewhere_begins_anew() -> None:
    rows = (row("v1", 0, 40), row("v2", 0, 100), row("s1", 30, 50, vc="speech"))
    result = parked(ParkRule(1), *rows)
    assert times(result)["v2"] == [(0, 30), (40, 140)]
    assert told(result, "v2") == (1, 1, 30)  # and no switch


@pytest.mark.parametrize("queueing", [Queueing.QUEUE, Queueing.ASIDE])
def test_who_waits_for_its_home_alone_lets_other_gpus_pass(queueing: Queueing) -> None:
    rows = (row("v1", 0, 40), row("v2", 0, 100), row("s1", 30, 50, vc="speech"))
    result = parked(ParkRule(1, Home.NODE, queueing=queueing), *rows)
    assert times(result)["v2"] == [(0, 30), (80, 180)]


@pytest.mark.parametrize("patience", [{"patience_ms": 20_000}, {"patience": 20 / 30}])
def test_after_its_patience_it_starts_anywhere_from_nothing(patience: dict[str, float]) -> None:
    rows = (row("v1", 0, 40), row("v2", 0, 100), row("s1", 30, 50, vc="speech"))
    result = parked(ParkRule(1, queueing=Queueing.ASIDE, **patience), *rows)  # type: ignore[arg-type]
    assert times(result)["v2"] == [(0, 30), (50, 150)]
    assert told(result, "v2") == (1, 1, 30)


@pytest.mark.parametrize(
    "rule",
    [
        ParkRule(1, least_ms=30_001),
        ParkRule(1, longest_ms=49_999),
        ParkRule(1, room=0),
    ],
    ids=["too little work", "preemptor too long", "no room in RAM"],
)
def test_who_may_not_be_parked_loses_its_work(rule: ParkRule) -> None:
    result = parked(rule, *RECLAIM)
    assert times(result)["v2"] == [(0, 30), (80, 180)]
    assert told(result, "v2") == (1, 0, 30)
    assert of(result, "v2").attempts[-1].end_ms == 180_000


def test_a_larger_job_than_the_rule_parks_loses_its_work() -> None:
    rows = (row("v1", 0, 100, 2), row("v2", 0, 100, 2), row("s1", 30, 50, 2, vc="speech"))
    assert told(parked(ParkRule(1), *rows, gpus=2, vision=1, speech=1), "v2") == (1, 0, 30)
    assert told(parked(ParkRule(2, Home.NODE), *rows, gpus=2, vision=1, speech=1), "v2") == (1, 1, 30)


@pytest.mark.parametrize(("price", "victim"), [(Price.WORK, "v3"), (Price.SWITCH, "v2"), (Price.WAIT, "v2")])
def test_who_can_be_parked_costs_two_switches_as_a_victim(price: Price, victim: str) -> None:
    """At 150 v2 has run for 150 s, and v3 for 50 s, which is not worth parking."""
    rows = (row("v1", 0, 500, 2), row("v2", 0, 500), row("v3", 100, 500), row("s1", 150, 50, vc="speech"))
    rule = ParkRule(1, price=price, least_ms=100_000)
    result = parked(rule, *rows, nodes=2, gpus=2, vision=1, speech=1)
    assert [one.job.id for one in result.events if one.happening is Happening.PREEMPT] == [victim]


def test_a_second_preemption_that_finds_no_room_loses_the_work_from_before_the_first() -> None:
    """v2 is parked at 30 and goes on at 80; at 100 its team's node has no room: v1 was parked there at 90."""
    rows = (row("v2", 0, 100), row("s1", 30, 50, vc="speech"), row("s2", 100, 10, vc="speech"))
    result = parked(ParkRule(1), row("v1", 0, 400), *rows)
    assert times(result)["v2"] == [(0, 30), (80, 100), (110, 220)]
    assert told(result, "v2") == (2, 2, 60)

"""What holds for every trace: the books of a simulation, and what lending may not take from anybody."""

from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from scheduling import Cluster, Engine, Plan
from scheduling.simulator.loop import Loop, Outcome, restart_cost
from scheduling.simulator.policies import Result, Settings, Sharing, compare, simulate, worlds
from scheduling.simulator.trace import TraceJob
from tests.unit.scheduling.simulator.traces import equal_nodes, row, times, trace

CLUSTER = equal_nodes(4, 4, vision=2, speech=1)


@st.composite
def rows(draw: st.DrawFn, *, each: int | str = "", priorities: tuple[int, ...] = (10,)) -> list[str]:
    """Up to twelve jobs of two teams that each fit their team's nodes; times in whole seconds."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        vc = draw(st.sampled_from(["vision", "speech"]))
        gpus = draw(st.sampled_from([1, 2, 3, 4, 8] if vc == "vision" else [1, 2, 4]))
        at, lasts = draw(st.integers(0, 60)), draw(st.integers(0, 60))
        priority = draw(st.sampled_from(priorities))
        made.append(row(f"j{number}", at, lasts, gpus, vc=vc, each=each, priority=priority))
    return made


@given(
    rows(priorities=(-1, 10, 100)),
    st.sampled_from([Sharing.PRIVATE, Sharing.CAPACITY, Sharing.FIFO]),
    st.booleans(),
    st.sampled_from([0, 5_000]),
)
def test_every_job_ends_and_its_runs_add_up_to_its_duration_and_what_was_lost(
    lines: list[str], sharing: Sharing, work_kept: bool, grace_ms: int
) -> None:
    settings = Settings(sharing, work_kept=work_kept, grace_ms=grace_ms, quota_in_gpus=True)
    result = simulate(CLUSTER, trace(CLUSTER, *lines), settings)
    for one in result.outcomes:
        assert one.finish_ms is not None
        assert one.attempts[-1].end_ms == one.finish_ms
        assert _run_ms(one) == one.job.duration_ms + one.lost_ms
        assert len(one.attempts) == one.preemptions + 1
        assert all(sum(attempt.nodes.values()) == one.job.gpus for attempt in one.attempts)
    check_nodes(result)


def _run_ms(outcome: Outcome) -> int:
    return sum(attempt.end_ms - attempt.start_ms for attempt in outcome.attempts if attempt.end_ms is not None)


def check_nodes(result: Result) -> None:
    """No node ever gives out more GPUs than it has; of one moment the ends come first."""
    changes = []
    for one in result.outcomes:
        for attempt in one.attempts:
            for node, gpus in attempt.nodes.items():
                if attempt.end_ms != attempt.start_ms:
                    changes += [(attempt.start_ms, gpus, node), (attempt.end_ms or 0, -gpus, node)]
    held: dict[str, int] = {}
    for _, gpus, node in sorted(changes):
        held[node] = held.get(node, 0) + gpus
        assert 0 <= held[node] <= 4


@given(rows(each=1))
def test_lending_by_gpu_count_starts_nobody_later_than_alone(lines: list[str]) -> None:
    jobs = trace(CLUSTER, *lines)
    settings = Settings(quota_in_gpus=True, restart_cost=lambda gpus: 0)
    lent, alone = simulate(CLUSTER, jobs, settings), compare(CLUSTER, jobs, settings)
    assert _late(lent, alone) == {}


def _late(result: Result, alone: Result) -> dict[str, tuple[int | None, int | None]]:
    pairs = zip(result.outcomes, alone.outcomes, strict=True)
    return {
        one.job.id: (one.first_start_ms, other.first_start_ms)
        for one, other in pairs
        if (one.first_start_ms or 0) > (other.first_start_ms or 0)
    }


@given(rows(priorities=(0, 10, 100)))
def test_whole_nodes_on_common_hardware_are_as_good_as_ones_own(lines: list[str]) -> None:
    jobs = trace(CLUSTER, *lines)
    shared, alone = simulate(CLUSTER, jobs, Settings(Sharing.QUOTA)), compare(CLUSTER, jobs, Settings())
    assert times(shared) == times(alone)


HEAD_PREEMPTED = [
    "j0,0,vision,,1,,,,,36,,-1",
    "j1,0,vision,,1,,,,,0,,-1",
    "j2,0,vision,,1,,,,,0,,-1",
    "j3,2,speech,,4,,,,,3,,10",
    "j4,0,vision,,1,,,,,0,,-1",
    "j5,2,speech,,1,,,,,34,,10",
    "j6,33,vision,,1,,,,,2,,100",
    "j7,0,vision,,8,,,,,34,,10",
    "j8,0,vision,,1,,,,,0,,-1",
    "j9,1,speech,,1,,,,,35,,10",
]
"""At 35 s vision takes the places of j3, which runs on loan and holds up the queue of speech: j5 may move in."""


class Doubtful:
    """An engine that at each moment asks another, which knows nothing but its rows."""

    def __init__(self, cluster: Cluster) -> None:
        self._engine = Engine(cluster)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def advance(self, now: int) -> Plan:
        fresh = Engine.restore(self.snapshot()).advance(now)
        assert self._engine.advance(now) == fresh
        return fresh


@given(rows(priorities=(-1, 10, 10, 100)), st.booleans(), st.sampled_from([0, 5_000]))
@example(lines=HEAD_PREEMPTED, quota_in_gpus=False, grace_ms=0)
@example(lines=HEAD_PREEMPTED, quota_in_gpus=False, grace_ms=5_000)
def test_what_an_engine_remembers_of_earlier_moments_changes_nothing(
    lines: list[str], quota_in_gpus: bool, grace_ms: int
) -> None:
    settings = Settings(quota_in_gpus=quota_in_gpus, grace_ms=grace_ms)
    (world,) = worlds(CLUSTER, trace(CLUSTER, *lines), settings)
    outcomes = Loop(
        cast(Engine, Doubtful(world.cluster)), world.jobs, restart_cost=restart_cost, ended=lambda: None
    ).run()
    assert all(one.finish_ms is not None for one in outcomes)


@given(rows(priorities=(-1, 0, 10, 100)))
def test_equal_traces_give_equal_histories(lines: list[str]) -> None:
    jobs = trace(CLUSTER, *lines)
    assert _history(CLUSTER, jobs) == _history(CLUSTER, jobs)


def _history(cluster: Cluster, jobs: tuple[TraceJob, ...]) -> tuple[object, ...]:
    return simulate(cluster, jobs, Settings()).events

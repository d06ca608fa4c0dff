"""Traces small enough to be worked by hand, under the ways of sharing that take nothing back."""

import pytest

from scheduling.simulator.loop import Attempt, Outcome, restart_cost
from scheduling.simulator.policies import Settings, Sharing, compare, simulate
from scheduling.simulator.trace import TraceError
from tests.unit.scheduling.simulator.traces import equal_nodes, of, row, run, times, trace

ONE_EACH = equal_nodes(2, 4, vision=1, speech=1)
CROWD = (
    row("v1", 0, 100, 4, vc="vision"),
    row("v2", 10, 50, 4, vc="vision"),
    row("s1", 20, 30, 4, vc="speech"),
)


def test_alone_a_team_waits_for_its_own_jobs_only() -> None:
    result = run(ONE_EACH, Sharing.PRIVATE, *CROWD)
    assert times(result) == {"v1": [(0, 100)], "v2": [(100, 150)], "s1": [(20, 50)]}
    assert [outcome.queue_ms for outcome in result.outcomes] == [0, 90_000, 0]


def test_under_quotas_without_lending_idle_gpus_of_another_team_stay_idle() -> None:
    assert times(run(ONE_EACH, Sharing.QUOTA, *CROWD)) == times(run(ONE_EACH, Sharing.PRIVATE, *CROWD))


def test_in_one_pool_who_came_first_is_first_whatever_team_and_priority() -> None:
    urgent = row("s1", 20, 30, 4, vc="speech", priority=1000)
    result = run(ONE_EACH, Sharing.FIFO, *CROWD[:2], urgent)
    assert times(result) == {"v1": [(0, 100)], "v2": [(10, 60)], "s1": [(60, 90)]}


def test_a_head_that_does_not_fit_blocks_its_teams_queue() -> None:
    cluster = equal_nodes(1, 4, vision=1)
    rows = (row("a", 0, 100, 2), row("b", 10, 50, 4), row("c", 20, 10, 1))
    assert times(run(cluster, Sharing.PRIVATE, *rows)) == {"a": [(0, 100)], "b": [(100, 150)], "c": [(150, 160)]}


def test_ends_of_a_moment_come_before_its_submissions() -> None:
    cluster = equal_nodes(1, 4, vision=1)
    rows = (row("a", 0, 100, 4), row("b", 100, 50, 4))
    assert times(run(cluster, Sharing.PRIVATE, *rows)) == {"a": [(0, 100)], "b": [(100, 150)]}


def test_a_job_of_no_length_makes_way_at_once() -> None:
    cluster = equal_nodes(1, 4, vision=1)
    rows = (row("a", 5, 0, 4), row("b", 5, 10, 4))
    assert times(run(cluster, Sharing.PRIVATE, *rows)) == {"a": [(5, 5)], "b": [(5, 15)]}


def test_the_books_gang_schedule_two_short_gangs_after_a_wide_one() -> None:
    """T2 of the worked examples: A of 6 tasks for 2 slots, B of 4 for 2, C of 4 for 1, on two nodes of 4 GPUs."""
    cluster = equal_nodes(2, 4, vision=2)
    result = run(
        cluster,
        Sharing.PRIVATE,
        row("A", 0, 2, 6, each=1),
        row("B", 0, 2, 4, each=1),
        row("C", 0, 1, 4, each=1),
    )
    assert times(result) == {"A": [(0, 2)], "B": [(2, 4)], "C": [(2, 3)]}
    assert [len(of(result, name).attempts[0].nodes) for name in "ABC"] == [2, 1, 1]
    used = sum(gpus * (attempt.end_ms or 0) - gpus * attempt.start_ms for attempt, gpus in _held(result.outcomes))
    assert used == 24_000


def _held(outcomes: tuple[Outcome, ...]) -> list[tuple[Attempt, int]]:
    return [(attempt, outcome.job.gpus) for outcome in outcomes for attempt in outcome.attempts]


@pytest.mark.parametrize("sharing", [Sharing.PRIVATE, Sharing.QUOTA, Sharing.CAPACITY])
def test_a_job_larger_than_its_quota_is_refused_with_its_line(sharing: Sharing) -> None:
    with pytest.raises(TraceError, match=r"line 3: .* needs 8 gpu at once; team vision owns 4"):
        run(ONE_EACH, sharing, row("a"), row("b", gpus=8))


def test_a_task_larger_than_any_node_is_refused_with_its_line_whatever_the_sharing() -> None:
    for sharing in Sharing:
        with pytest.raises(TraceError, match=r"line 2: .* asks for 5 GPUs on one node; a node has 4"):
            run(equal_nodes(2, 4, vision=2), sharing, row("a", gpus=5, nodes=1))


def test_in_one_pool_a_job_may_be_larger_than_its_quota_and_is_compared_with_nothing() -> None:
    rows = (row("a", gpus=8), row("b"))
    assert times(run(ONE_EACH, Sharing.FIFO, *rows)) == {"a": [(0, 100)], "b": [(100, 200)]}
    alone = compare(ONE_EACH, trace(ONE_EACH, *rows), Settings(Sharing.FIFO, quota_in_gpus=True))
    assert times(alone) == {"a": [], "b": [(0, 100)]}


def test_each_job_that_is_over_is_told() -> None:
    told = []
    simulate(ONE_EACH, trace(ONE_EACH, *CROWD), Settings(Sharing.QUOTA, quota_in_gpus=True), lambda: told.append(1))
    assert len(told) == 3


@pytest.mark.parametrize(("gpus", "seconds"), [(0, 7), (1, 7), (2, 30), (8, 30), (9, 60), (64, 60)])
def test_what_a_restart_costs_depends_on_the_size(gpus: int, seconds: int) -> None:
    assert restart_cost(gpus) == seconds * 1000

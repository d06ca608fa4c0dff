"""The figures of a simulation, on histories small enough to be worked by hand."""

import pytest

from scheduling.model.job import Standing
from scheduling.simulator.loop import Attempt, Outcome
from scheduling.simulator.metrics import Later, Spread, percentile, spread, summary
from scheduling.simulator.policies import Sharing
from scheduling.simulator.timeline import Moment, timeline
from tests.unit.scheduling.simulator.traces import equal_nodes, row, run, trace

CLUSTER = equal_nodes(2, 4, vision=1, speech=1)
ROWS = (row("v", 0, 100, 4, vc="vision"), row("w", 10, 50, 2, vc="vision"), row("s", 60, 40, 1, vc="speech"))


def history(*runs: list[tuple[float, float | None]], lost: tuple[int, ...] = (0, 0, 0)) -> list[Outcome]:
    """What became of the jobs of ROWS: of each the runs in seconds; the last run's end is the job's."""
    found = []
    for job, attempts, lost_ms in zip(trace(CLUSTER, *ROWS), runs, lost, strict=True):
        made = [
            Attempt(
                int(start * 1000), {"node1": job.gpus}, Standing.GUARANTEED, None if end is None else int(end * 1000)
            )
            for start, end in attempts
        ]
        finish = made[-1].end_ms if made else None
        found.append(Outcome(job, made, max(0, len(made) - 1), lost_ms, finish))
    return found


@pytest.mark.parametrize(("percent", "value"), [(50, 2), (75, 3), (76, 4), (100, 4), (1, 1)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent: int, value: int) -> None:
    assert percentile([1, 2, 3, 4], percent) == value


def test_delays_are_told_by_their_mean_and_percentiles_of_the_jobs_that_ended() -> None:
    assert spread([3000, None, 1000]) == Spread(2.0, 1.0, 3.0, 3.0)
    assert spread([None]) == Spread(None, None, None, None)


def test_gpus_are_used_from_the_first_to_the_last_submission() -> None:
    found = summary(CLUSTER, history([(0, 100)], [(10, 30), (50, 80)], [(60, 100)]))
    assert found.overall.gpu_utilisation == (4 * 60 + 2 * (20 + 10)) / (8 * 60)
    assert found.per_vc["vision"].gpu_utilisation == (4 * 60 + 2 * (20 + 10)) / (4 * 60)
    assert found.per_vc["speech"].gpu_utilisation == 0
    assert found.overall.gpu_hours == (4 * 100 + 2 * 50 + 40) / 3600


def test_completion_queue_and_makespan_follow_from_the_end() -> None:
    found = summary(CLUSTER, history([(0, 100)], [(100, 150)], [(60, 100)])).per_vc["vision"]
    assert (found.queue_s.mean, found.completion_s.p99, found.makespan_s) == (45, 140, 150)
    assert (found.count, found.unfinished) == (2, 0)


def test_work_lost_is_counted_in_gpu_hours_and_each_preemption() -> None:
    runs: list[list[tuple[float, float | None]]] = [[(0, 100)], [(10, 30), (50, 60), (70, 120)], [(60, 100)]]
    found = summary(CLUSTER, history(*runs, lost=(0, 36_000, 0)))
    assert (found.overall.preemptions, found.overall.preempted_jobs) == (2, 1)
    assert found.overall.gpu_hours_lost == 2 * 36 / 3600


def test_jobs_that_never_end_are_counted_and_hold_what_they_hold() -> None:
    found = summary(CLUSTER, history([(0, None)], [], [(60, 100)])).overall
    assert (found.count, found.unfinished, found.completion_s.mean) == (3, 2, 40)
    assert found.gpu_utilisation == 4 * 60 / (8 * 60)


def test_later_than_alone_counts_any_later_end_and_starts_more_than_a_second_later() -> None:
    alone = history([(0, 100)], [(100, 150)], [(60, 100)])
    shared = history([(1, 100)], [(101.5, 150.001)], [])
    assert summary(CLUSTER, shared, alone).overall.later_than_private == Later(completions=1, first_starts=1)
    assert summary(CLUSTER, alone).overall.later_than_private is None


def test_a_single_submission_has_no_utilisation() -> None:
    found = run(CLUSTER, Sharing.PRIVATE, row("v", 5))
    assert summary(CLUSTER, found.outcomes).overall.gpu_utilisation is None


def test_the_timeline_tells_gpus_in_use_and_jobs_that_wait() -> None:
    rows = (row("v1", 0, 100, 4), row("v2", 10, 50, 4), row("v3", 10, 20, 2))
    result = run(equal_nodes(1, 4, vision=1), Sharing.PRIVATE, *rows)
    assert timeline(result.events) == [
        Moment(0, 4, 0, 0, 0),
        Moment(10_000, 4, 0, 2, 6),
        Moment(100_000, 4, 0, 1, 2),
        Moment(150_000, 2, 0, 0, 0),
        Moment(170_000, 0, 0, 0, 0),
    ]

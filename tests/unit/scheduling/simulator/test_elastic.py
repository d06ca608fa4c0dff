"""Jobs that grow and shrink, on traces small enough to be worked by hand."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.elastic import ElasticRule, halved, is_elastic
from scheduling.simulator.policies import Result, Settings, request, simulate
from scheduling.simulator.timeline import timeline
from tests.unit.scheduling.simulator.test_properties import CLUSTER, check_nodes, rows
from tests.unit.scheduling.simulator.traces import equal_nodes, of, row, times, trace

ALL = ElasticRule(1.0, 1.0)
"""Every job is elastic, and twice the GPUs are twice as fast."""


def grown(rule: ElasticRule, *lines: str, nodes: int = 1, gpus: int = 4, **owned: int) -> Result:
    cluster = equal_nodes(nodes, gpus, **(owned or {"vision": nodes}))
    return simulate(cluster, trace(cluster, *lines), Settings(elastic=rule))


def sizes(result: Result, name: str) -> list[tuple[float, int]]:
    """From when on a job had how many GPUs."""
    return [(one.start_ms / 1000, one.gpus) for one in of(result, name).attempts]


def test_alone_an_elastic_job_is_as_fast_as_any() -> None:
    result = grown(ALL, row("e", 0, 100, 4))
    assert (times(result)["e"], sizes(result, "e")) == ([(0, 100)], [(0, 4)])


def test_it_starts_with_half_where_others_are_in_the_way_and_is_slower_by_the_efficiency() -> None:
    lines = (row("a", 0, 1000), row("b", 0, 1000), row("e", 0, 100, 4))
    assert times(grown(ALL, *lines))["e"] == [(0, 200)]
    assert times(grown(ElasticRule(1.0, 0.8), *lines))["e"] == [(0, 160)]


def test_it_grows_into_what_becomes_idle_for_the_price_of_a_change() -> None:
    lines = (row("a", 0, 50), row("b", 0, 50), row("e", 0, 100, 4))
    result = grown(ALL, *lines)
    assert sizes(result, "e") == [(0, 2), (50, 4)]
    assert times(result)["e"][-1] == (50, 50 + 75 + 30)
    assert (of(result, "e").resizes, of(result, "e").lost_ms) == (1, 30_000)


def test_it_gives_back_at_once_what_anybody_wants_and_grows_again_ten_minutes_later() -> None:
    lines = (row("e", 0, 2000, 4), row("a", 100, 50), row("b", 100, 50))
    result = grown(ALL, *lines)
    assert times(result)["a"] == times(result)["b"] == [(100, 150)]
    assert sizes(result, "e") == [(0, 4), (100, 2), (700, 4)]
    assert of(result, "e").preemptions == 0


def test_who_has_the_smallest_part_of_its_gpus_grows_first() -> None:
    lines = (row("three", 0, 1000, 3), row("four", 0, 1000, 4), row("a", 0, 50))
    result = grown(ALL, *lines, gpus=5)
    assert (sizes(result, "three")[0], sizes(result, "four")[:2]) == ((0, 2), [(0, 2), (50, 3)])


def test_only_the_share_is_elastic_and_a_larger_share_holds_the_smaller() -> None:
    cluster = equal_nodes(1, 8, vision=1)
    jobs = trace(cluster, *(row(f"j{number}", 0, 10, 8) for number in range(400)))
    some = [
        {job.id for job in jobs if request(job, Settings(elastic=ElasticRule(share))).roles[0].gpus == 4}
        for share in (0.0, 0.2, 0.5, 1.0)
    ]
    assert all(small <= large for small, large in zip(some, some[1:], strict=False))
    assert (len(some[0]), len(some[3])) == (0, 400)
    assert 60 < len(some[1]) < 100
    assert 170 < len(some[2]) < 230


def test_jobs_of_one_gpu_of_more_than_eight_or_of_unequal_tasks_are_not_elastic() -> None:
    cluster = equal_nodes(4, 8, vision=4)
    for line, elastic in [
        (row("one", 0, 10, 1), False),
        (row("sixteen", 0, 10, 16, nodes=2), False),
        (row("unequal", 0, 10, 5, nodes=2), False),
        (row("pair", 0, 10, 2), True),
        (row("two nodes", 0, 10, 8, nodes=2), True),
    ]:
        (job,) = trace(cluster, line)
        assert is_elastic(request(job, Settings()), job.gpus) is elastic


def test_half_of_several_tasks_are_half_the_tasks_and_half_of_one_task_half_its_gpus_and_cpu() -> None:
    cluster = equal_nodes(4, 8, vision=4)
    for line, tasks, gpus, cpu in [
        (row("a", 0, 10, 8, cpu=8), 1, 4, 4000),
        (row("b", 0, 10, 8, nodes=2, cpu=8), 1, 4, 4000),
        (row("c", 0, 10, 6, nodes=3), 2, 2, 0),
        (row("d", 0, 10, 3), 1, 2, 0),
    ]:
        (job,) = trace(cluster, line)
        (role,) = halved(request(job, Settings())).roles
        assert (role.count, role.gpus, role.cpu_milli) == (tasks, gpus, cpu)


def test_the_timeline_counts_what_a_job_grew_into() -> None:
    result = grown(ALL, row("a", 0, 50, 2), row("e", 0, 100, 4))
    assert [(one.at_ms / 1000, one.guaranteed + one.borrowed) for one in timeline(result.events)] == [
        (0, 4),
        (50, 4),
        (155, 0),
    ]


@given(rows(priorities=(-1, 10, 100)), st.sampled_from([0.6, 1.0]), st.sampled_from([0, 5_000]))
def test_what_elastic_jobs_compute_adds_up_and_no_gpu_is_taken_twice(
    lines: list[str], efficiency: float, grace_ms: int
) -> None:
    rule = ElasticRule(0.5, efficiency)
    jobs = trace(CLUSTER, *lines)
    result = simulate(CLUSTER, jobs, Settings(quota_in_gpus=True, grace_ms=grace_ms, elastic=rule))
    check_nodes(result)
    for one in result.outcomes:
        done = sum(
            ((attempt.end_ms or 0) - attempt.start_ms) * rule.speed(attempt.gpus, one.job.gpus) / 1000
            for attempt in one.attempts
        )
        assert one.finish_ms == one.attempts[-1].end_ms
        assert abs(done - one.job.duration_ms - one.lost_ms) <= len(one.attempts)

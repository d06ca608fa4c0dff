"""Rows of a trace become jobs; what is wrong is told with its line, its column and its number."""

import pytest

from scheduling.simulator.trace import TraceError
from scheduling.simulator.trace import read as read_trace
from tests.unit.scheduling.simulator.traces import HEADER, equal_nodes, row, trace

CLUSTER = equal_nodes(4, 8, vision=2, speech=1)


def shape(line: str) -> list[tuple[int, int]]:
    """Number of tasks and GPUs of each, by role."""
    (job,) = trace(CLUSTER, line)
    assert len(job.wanted) == sum(role.count for role in job.roles)
    assert job.gpus == sum(role.count * role.gpus for role in job.roles)
    return [(role.count, role.gpus) for role in job.roles]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (row(gpus=16, nodes=2, each=8), [(2, 8)]),
        (row(gpus="", nodes=2, each=4), [(2, 4)]),
        (row(gpus=6, each=1), [(6, 1)]),
        (row(gpus=5, each=2), [(2, 2), (1, 1)]),
        (row(gpus=8), [(1, 8)]),
        (row(gpus=20), [(2, 8), (1, 4)]),
        (row(gpus=10, nodes=4), [(2, 3), (2, 2)]),
        (row(gpus="4.0", nodes="1.0", each="4.0"), [(1, 4)]),
        (row(gpus=0, cpu=4), [(1, 0)]),
        (row(gpus=0, nodes=2, cpu=4), [(2, 0)]),
    ],
)
def test_the_gangs_shape_follows_from_whatever_the_row_says_of_it(line: str, expected: list[tuple[int, int]]) -> None:
    assert shape(line) == expected


def test_times_are_milliseconds_and_an_empty_priority_is_the_default() -> None:
    first, second = trace(CLUSTER, row("b", at=1.5, lasts=0.25), row("a", at=0, priority=-1))
    assert [(first.id, first.priority), (second.id, second.priority)] == [("a", -1), ("b", 10)]
    assert (second.submit_ms, second.duration_ms) == (1500, 250)


def test_cpu_and_memory_are_the_whole_jobs_and_are_divided_among_its_tasks() -> None:
    (job,) = trace(CLUSTER, row(gpus=16, nodes=2, each=8, cpu=7, memory=3))
    assert [(role.cpu_milli, role.memory_mb) for role in job.roles] == [(3500, 1536)]


def test_columns_may_stand_in_any_order_among_others_and_lines_may_be_blank() -> None:
    names = ["comment", *reversed(HEADER.split(","))]
    values = ["x", *reversed(row("j1", gpus=2).split(","))]
    (job,) = read_trace([",".join(names), "", ",".join(values), ",,,"], CLUSTER)
    assert (job.id, job.gpus, job.line) == ("j1", 2, 3)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (row(at=-5), "line 2: submit_time_s -5 is negative"),
        (row(lasts="-0.5"), "line 2: duration_s -0.5 is negative"),
        (row(at=""), "line 2: submit_time_s is empty"),
        (row(lasts=""), "line 2: duration_s is empty"),
        (row(lasts="long"), "line 2: duration_s 'long' is no number"),
        (row(at="nan"), "line 2: submit_time_s nan is no finite number"),
        (row(lasts="1e999"), "line 2: duration_s 1e999 is no finite number"),
        (row(vc="sound"), "line 2: vc sound is none of the cluster's: speech, vision"),
        (row(vc=""), "line 2: vc (empty) is none of the cluster's: speech, vision"),
        (row(name=""), "line 2: job_id is empty"),
        (row(gpus=""), "line 2: gpus is empty and nodes x gpus_per_node does not tell it"),
        (row(gpus=0), "line 2: gpus is 0 and no CPU or memory is asked for either"),
        (row(gpus=1.5), "line 2: gpus 1.5 is no whole number"),
        (row(gpus=-1), "line 2: gpus -1 is negative"),
        (row(gpus=9, nodes=2, each=4), "line 2: gpus 9 is not nodes x gpus_per_node, 2 x 4"),
        (row(gpus=10**12), "line 2: gpus 1000000000000 is more than the 32 of the cluster"),
        (row(gpus=8, nodes=5), "line 2: nodes 5 is not from 1 to the 4 of the cluster"),
        (row(gpus=0, nodes=10**9, cpu=1), "line 2: nodes 1000000000 is not from 1 to the 4 of the cluster"),
        (row(gpus=8, nodes=0), "line 2: nodes 0 is not from 1 to the 4 of the cluster"),
        (row(priority=1001), "line 2: priority 1001 is no whole number from -1 to 1000"),
        (row(priority=-2), "line 2: priority -2 is no whole number from -1 to 1000"),
        (row(priority="high"), "line 2: priority 'high' is no number"),
        ("j,0,vision", "line 2: has 3 fields where the columns need 12"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_line_column_and_number(line: str, fault: str) -> None:
    with pytest.raises(TraceError) as refused:
        trace(CLUSTER, line)
    assert [str(one) for one in refused.value.faults] == [fault]


def test_every_faulty_line_is_named_at_once() -> None:
    with pytest.raises(TraceError) as refused:
        trace(CLUSTER, row("a", at=-1), row("b"), row("b", lasts=-1), row("c", gpus=99))
    assert [(fault.line, fault.column) for fault in refused.value.faults] == [
        (2, "submit_time_s"),
        (4, "job_id"),
        (5, "gpus"),
    ]
    assert refused.value.faults[1].sentence == "b stands on line 3 already"


@pytest.mark.parametrize("column", HEADER.split(","))
def test_a_missing_column_is_named(column: str) -> None:
    names = [name for name in HEADER.split(",") if name != column]
    with pytest.raises(TraceError, match=f"line 1: {column} is a column that is missing"):
        read_trace([",".join(names)], CLUSTER)


def test_all_missing_and_doubled_columns_are_named() -> None:
    with pytest.raises(TraceError) as refused:
        read_trace(["job_id,vc,vc,user"], CLUSTER)
    named = [fault.column for fault in refused.value.faults]
    assert named == [name for name in HEADER.split(",") if name not in ("job_id", "vc", "user")] + ["vc"]


def test_what_is_no_csv_is_refused_by_line() -> None:
    with pytest.raises(TraceError, match=r"line 3: is no row of a CSV file"):
        trace(CLUSTER, row(), "x" * 200_000)


def test_a_trace_without_jobs_or_without_anything_is_refused() -> None:
    with pytest.raises(TraceError, match="line 1: is followed by no job"):
        trace(CLUSTER)
    with pytest.raises(TraceError, match="line 1: job_id is a column that is missing"):
        read_trace([], CLUSTER)

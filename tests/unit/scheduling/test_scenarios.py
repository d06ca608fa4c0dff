"""Whole stories, played by an event loop: the textbook's gangs and the lab's experiments on two GPUs.

T1 and T2 are chapter 7.3.2 of Microsoft's AI-System textbook; config A and B are its advanced lab 6.
"""

import pytest

from scheduling import Cluster, Code, JobRefused
from tests.unit.scheduling.builders import carry_out, cluster, engine, job, node, role, running
from tests.unit.scheduling.playing import run_to_the_end

TEXTBOOK = cluster(node("node1", 4), node("node2", 4), vision=8)
CONFIG_A = cluster(node("carol", 1), node("dan", 1), default=1, vc1=1)
CONFIG_B = cluster(node("carol", 1), node("dan", 1), default=2)


def test_t1_two_gangs_of_five_on_eight_gpus_do_not_lock_each_other_out() -> None:
    made = engine(TEXTBOOK, job("a", role(count=5), at=0), job("b", role(count=5), at=1))
    plan = carry_out(made)
    assert [(start.job.id, len(start.placements)) for start in plan.starts] == [("a", 5)]
    assert [one.job.id for one in made.snapshot().running] == ["a"]
    made.finish("a")
    assert [(start.job.id, len(start.placements)) for start in made.plan(1).starts] == [("b", 5)]


def test_t2_gangs_over_four_slots() -> None:
    arrivals = [
        (0, job("a", role(count=6), at=0, order=0)),
        (0, job("b", role(count=4), at=0, order=1)),
        (0, job("c", role(count=4), at=0, order=2)),
    ]
    run = run_to_the_end(engine(TEXTBOOK), arrivals, {"a": 2, "b": 2, "c": 1})
    assert {name: set(times) for name, times in run.began.items()} == {"a": {0}, "b": {2}, "c": {2}}
    assert run.ended == {"a": 2, "c": 3, "b": 4}
    assert run.nodes["a"] == {"node1": 4, "node2": 2}
    assert [len(run.nodes[name]) for name in "bc"] == [1, 1]


def test_lab_a_team_of_one_gpu_runs_its_jobs_one_at_a_time_and_leaves_the_other_team_its_gpu() -> None:
    arrivals = [(0, job(f"job-0-{n}", vc="vc1", order=n)) for n in range(3)]
    run = run_to_the_end(engine(CONFIG_A), arrivals, {f"job-0-{n}": 10 for n in range(3)})
    assert run.began == {"job-0-0": [0], "job-0-1": [10], "job-0-2": [20]}


def test_lab_the_other_team_starts_at_once_whatever_waits() -> None:
    made = running(CONFIG_A, job("job-0", vc="vc1"))
    made.submit(job("job-1", vc="vc1", priority=100))
    made.submit(job("theirs", vc="default"))
    assert [start.job.id for start in made.plan(0).starts] == ["theirs"]


def test_lab_a_gang_starts_all_at_once_when_the_running_job_ends() -> None:
    arrivals = [(0, job("job-5", vc="default")), (1, job("job-6", role(count=2), vc="default", at=1))]
    run = run_to_the_end(engine(CONFIG_B), arrivals, {"job-5": 10, "job-6": 5})
    assert run.began == {"job-5": [0], "job-6": [10, 10]}


def test_lab_a_job_that_is_no_gang_starts_one_task_at_once_and_the_second_later() -> None:
    arrivals = [
        (0, job("job-5", vc="default")),
        (1, job("job-7", role(count=2), vc="default", at=1, gang=False)),
    ]
    run = run_to_the_end(engine(CONFIG_B), arrivals, {"job-5": 10, "job-7": 30})
    assert run.began == {"job-5": [0], "job-7": [1, 10]}


def test_lab_four_tasks_on_two_gpus_run_two_at_a_time() -> None:
    arrivals = [(0, job("four", role(count=4), vc="default", gang=False))]
    run = run_to_the_end(engine(CONFIG_B), arrivals, {"four": 10})
    assert run.began == {"four": [0, 0, 10, 10]}
    assert run.most_at_once == {"four": 2}


def test_a_large_gang_is_not_starved_by_a_stream_of_small_jobs() -> None:
    described: Cluster = cluster(node("a"), vision=4)
    small = [(at, job(f"s{at:02}", at=at, order=at)) for at in range(0, 40, 2)]
    arrivals = sorted([*small, (3, job("gang", role(count=4), at=3))], key=lambda one: one[0])
    run = run_to_the_end(engine(described), arrivals, {f"s{at:02}": 5 for at in range(0, 40, 2)} | {"gang": 5})
    assert run.began["gang"] == [7, 7, 7, 7]


def test_a_gang_that_leaves_a_hole_lets_nobody_of_its_team_pass_but_tells_them_why() -> None:
    made = engine(TEXTBOOK, job("a", role(count=6), order=0), job("b", role(count=4), order=1), job("c", order=2))
    codes = {wait.job.id: wait.reason.code for wait in made.plan(0).waits}
    assert codes == {"b": Code.QUOTA, "c": Code.ORDER}


def test_lab_a_higher_class_preempts_at_once_and_the_lower_one_runs_again_and_ends_last() -> None:
    arrivals = [(0, job("job-1", vc="vc1", priority=10)), (5, job("job-2", vc="vc1", priority=100, at=5))]
    run = run_to_the_end(engine(CONFIG_A), arrivals, {"job-1": 20, "job-2": 10})
    assert run.began == {"job-1": [0, 15], "job-2": [5]}
    assert run.preempted == [(5, "job-2", "job-1")]
    assert run.ended == {"job-2": 15, "job-1": 35}


def test_lab_an_opportunistic_job_starts_on_the_other_teams_gpu_and_leaves_when_that_team_comes() -> None:
    arrivals = [
        (0, job("job-3", vc="vc1", priority=100)),
        (1, job("job-4", vc="vc1", priority=-1, at=1)),
        (4, job("theirs", vc="default", priority=10, at=4)),
    ]
    run = run_to_the_end(engine(CONFIG_A), arrivals, {"job-3": 50, "job-4": 30, "theirs": 10})
    assert run.began == {"job-3": [0], "job-4": [1, 14], "theirs": [4]}
    assert run.preempted == [(4, "theirs", "job-4")]


def test_lab_a_gang_of_four_on_two_gpus_is_refused() -> None:
    with pytest.raises(JobRefused) as refused:
        engine(CONFIG_B).submit(job("four", role(count=4), vc="default"))
    assert "4" in str(refused.value)
    assert "2" in str(refused.value)

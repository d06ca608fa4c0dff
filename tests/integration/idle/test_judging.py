"""Jobs whose GPUs do nothing: warned once, then stopped or made opportunistic; whoever works is left alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.common.errors import Conflict
from portal.idle.models import GpuActivity, IdleWarning
from portal.idle.services.policy import idle_exemption_add
from portal.idle.services.warnings import idle_extend, idle_judge
from portal.jobs.models import Allocation, Job, JobEvent
from portal.parking.models import Parking, ParkState
from portal.parking.services.park import job_park
from portal.teams.models import VirtualCluster
from tests.support.cluster.idle_scenes import MINUTE, Scene, clock

pytestmark = pytest.mark.django_db


def state(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def test_without_a_policy_of_ones_own_an_hour_of_nothing_is_warned_of_and_nothing_follows(scene: Scene) -> None:
    scene.idle(59)
    scene.judge()
    assert scene.told() == []
    scene.idle(60)
    scene.judge()
    assert scene.told() == ["Its 4 GPUs have been below 5 % for 60 minutes."]
    scene.idle(6000)
    scene.judge()
    assert len(scene.told()) == 1
    assert state(scene.job) == "running"


def test_a_job_is_warned_once_and_stopped_with_its_cause(scene: Scene) -> None:
    scene.policy("stop", vc=scene.world.vc)
    scene.idle(10)
    for _ in range(2):
        scene.judge()
    warned_at, due = scene.now, scene.now + 30 * MINUTE
    assert scene.told() == [
        f"Its 4 GPUs have been below 5 % for 10 minutes. It is stopped at {clock(due)} unless they work again."
    ]
    scene.now += 29 * MINUTE
    scene.idle(39)
    scene.judge()
    assert state(scene.job) == "running"
    scene.now += MINUTE
    scene.idle(40)
    for _ in range(2):
        scene.judge()
    scene.world.settle()
    job = Job.objects.get(pk=scene.job.pk)
    assert (job.state, job.end_reason) == ("stopped", "idle")
    assert job.end_message == (
        "Stopped: its 4 GPUs were below 5 % for 40 minutes; policy of virtual cluster vision; "
        f"warned at {warned_at:%H:%M} UTC."
    )
    assert not Allocation.objects.filter(released_at=None).exists()
    scene.judge(1)
    assert not IdleWarning.objects.filter(ended_at=None).exists()
    assert not GpuActivity.objects.exists(), "what is over is not remembered"


def test_who_works_again_is_told_so_and_the_next_stretch_is_warned_of_anew(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(10)
    scene.judge()
    first = scene.now
    scene.now += 20 * MINUTE
    scene.idle(2)
    scene.judge()
    assert scene.told()[1:] == [f"The warning of {first:%H:%M} UTC is withdrawn: its GPUs work again."]
    scene.now += 8 * MINUTE
    scene.idle(10)
    scene.judge()
    assert len(scene.told()) == 3
    assert scene.warning().due_at == scene.now + 30 * MINUTE


@pytest.mark.parametrize("action", ["stop", "park", "opportunistic"])
def test_a_job_that_somebody_parked_keeps_no_gpu_idle_and_nothing_more_is_done_to_it(scene: Scene, action: str) -> None:
    job = scene.run_parkable()
    scene.policy(action)
    scene.idle(10, job)
    scene.judge()
    scene.now += 29 * MINUTE
    scene.idle(39, job)
    job_park(job=job, actor="alice", now=scene.now)
    scene.world.settle()
    scene.judge(1)
    scene.idle(60, job)
    scene.judge()
    scene.world.settle()
    assert Parking.objects.get().state == ParkState.PARKED
    assert state(job) == "running"
    assert len(scene.told(job)) == 2
    assert scene.told(job)[1].endswith("is withdrawn: it is parked.")


def test_a_job_that_cannot_be_parked_is_told_why_and_nothing_is_announced(scene: Scene) -> None:
    scene.policy("park")
    VirtualCluster.objects.update(parking=True)
    scene.idle(10)
    scene.judge()
    assert scene.told() == [
        "Its 4 GPUs have been below 5 % for 10 minutes. It cannot be parked: only a job of one task with one GPU can "
        "be parked."
    ]
    assert scene.warning().due_at is None


def test_a_job_that_cannot_be_parked_any_more_when_its_time_comes_stays_warned(scene: Scene) -> None:
    job = scene.run_parkable()
    scene.policy("park")
    scene.idle(10, job)
    scene.judge()
    due = scene.now + 30 * MINUTE
    VirtualCluster.objects.update(parking=False)
    scene.now = due
    scene.idle(40, job)
    for _ in range(2):
        scene.judge()
    assert scene.told(job) == [
        f"Its 1 GPU has been below 5 % for 10 minutes. It is parked at {clock(due)} unless it works again: its GPU is "
        "lent until somebody resumes it.",
        "It cannot be parked: virtual cluster vision has no jobs parked, which its leads may change.",
    ]
    assert scene.warning().due_at is None
    assert not Parking.objects.exists()


def test_nothing_is_done_to_a_job_of_which_nothing_is_heard(scene: Scene) -> None:
    scene.policy("stop", after_minutes=5)
    scene.idle(10)
    scene.judge()
    scene.judge(10)
    assert scene.told()[1].endswith("is withdrawn: nothing was heard of its GPUs for some minutes.")
    assert state(scene.job) == "running"


def test_after_a_standstill_nobody_is_judged_before_readings_are_taken_in(scene: Scene) -> None:
    scene.policy("stop", after_minutes=5)
    scene.idle(10)
    scene.judge()
    idle_judge(now=scene.now + timedelta(hours=2))
    assert len(scene.told()) == 1


def test_a_job_made_opportunistic_runs_on_loan_and_yields_to_those_who_own_the_gpus(scene: Scene) -> None:
    world = scene.world
    scene.policy("opportunistic")
    scene.idle(10)
    scene.judge()
    scene.now += 30 * MINUTE
    scene.idle(40)
    for _ in range(2):
        scene.judge()
    assert scene.told()[1].startswith("It is opportunistic until this attempt ends, and its GPUs may be taken back: ")
    job = Job.objects.get(pk=scene.job.pk)
    assert (job.state, job.priority) == ("running", -1)
    held = Allocation.objects.filter(task_attempt__job_attempt__job=job)
    assert set(held.values_list("standing", "virtual_cell")) == {("borrowed", "")}
    world.settle()
    assert state(job) == "running", "the scheduler leaves it there while nobody wants its GPUs"
    wanting = world.submit(name="wanting", gpu=8)
    world.settle()
    world.settle()
    assert state(wanting) == "running"
    job.refresh_from_db()
    assert (job.state, job.priority) == ("waiting", 10), "its next attempt has its own class again"


def test_what_was_done_is_not_undone_by_work(scene: Scene) -> None:
    scene.policy("opportunistic")
    scene.idle(10)
    scene.judge()
    scene.now += 30 * MINUTE
    scene.idle(40)
    scene.judge()
    scene.idle(0)
    scene.judge()
    assert scene.told()[-1] == "Its GPUs work again. The job stays opportunistic until this attempt ends."
    assert Job.objects.get(pk=scene.job.pk).priority == -1


def test_a_job_that_is_opportunistic_already_is_only_warned(scene: Scene) -> None:
    job = scene.run(name="low", extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
    scene.policy("opportunistic")
    scene.idle(10, job)
    scene.judge()
    assert scene.told(job) == ["Its 1 GPU has been below 5 % for 10 minutes."]


def test_the_policy_of_a_virtual_cluster_goes_before_the_clusters(scene: Scene) -> None:
    scene.policy("stop")
    scene.policy("off", vc=scene.world.vc)
    scene.idle(100)
    scene.judge()
    assert scene.told() == []


def test_a_policy_that_changes_withdraws_its_warnings_and_tells_the_new_terms(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(20)
    scene.judge()
    scene.policy("warn")
    for _ in range(2):
        scene.judge()
    assert scene.told()[1].endswith("is withdrawn: the idle policy was changed.")
    assert scene.told()[2:] == ["Its 4 GPUs have been below 5 % for 20 minutes."]


def test_whoever_is_excepted_is_not_warned_any_more(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(20)
    scene.judge()
    idle_exemption_add(
        vc=scene.world.vc, user=None, job=scene.job, pattern="", reason="a demo", until=scene.now + 10 * MINUTE,
        now=scene.now, actor="lead",
    )  # fmt: skip
    scene.judge()
    assert scene.told()[1].endswith("is withdrawn: it is excepted from the idle policy now.")
    scene.now += 10 * MINUTE
    scene.idle(30)
    scene.judge()
    assert len(scene.told()) == 3, "the exception is over"


def test_an_owner_puts_it_off_as_often_as_the_policy_allows(scene: Scene) -> None:
    scene.policy("stop", extensions=1)
    with pytest.raises(Conflict, match="Nothing was announced"):
        idle_extend(job=scene.job, actor="alice", now=scene.now)
    scene.idle(10)
    scene.judge()
    due = scene.now + 50 * MINUTE
    idle_extend(job=scene.job, actor="alice", now=scene.now)
    assert scene.told()[1] == (
        f"Put off by alice for 20 minutes. It is stopped at {clock(due)} unless they work again."
    )
    with pytest.raises(Conflict, match="as often as the policy allows"):
        idle_extend(job=scene.job, actor="alice", now=scene.now)
    scene.now += 40 * MINUTE
    scene.idle(50)
    scene.judge()
    assert state(scene.job) == "running"
    scene.now += 10 * MINUTE
    scene.idle(60)
    scene.judge()
    scene.world.settle()
    assert state(scene.job) == "stopped"


def test_a_warning_ends_with_the_attempt(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(10)
    scene.judge()
    scene.world.nodes["gpu01"].finish()
    scene.judge(1)
    assert IdleWarning.objects.get().end == "over"


def test_a_look_takes_as_many_queries_for_many_jobs_as_for_one(scene: Scene) -> None:
    scene.policy("stop")
    scene.idle(1)
    idle_judge(now=scene.now)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            idle_judge(now=scene.now)
        return len(captured)

    one = queries()
    for number in range(3):
        scene.idle(1, scene.run(name=f"other{number}"))
    assert queries() == one
    assert not JobEvent.objects.filter(code="idle_warned").exists()

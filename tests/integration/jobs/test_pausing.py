"""A waiting job is paused and resumed: by REST and on its page."""

from __future__ import annotations

import pytest

from portal.jobs.models import Job
from portal.jobs.services.pause import job_pause
from tests.integration.scheduler.plans import carry_out, read, start
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """One GPU, which a job holds."""
    made = World()
    made.node("gpu01", gpus=1)
    made.submit(name="holder")
    made.settle()
    return made


def state(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def over(world: World) -> None:
    """Whatever runs has ended, and the next has started."""
    world.nodes["gpu01"].finish()
    world.settle()


def test_a_paused_job_says_so_holds_nobody_up_and_goes_on_where_it_was(world: World) -> None:
    first, second = (world.submit(name=name) for name in ("first", "second"))
    api = Api(world.user)
    answer = api.call("POST", f"jobs/{first.pk}/pause")
    assert (answer.status_code, answer.json()["waiting"]["paused"]) == (200, True)
    world.cycle()
    waiting = api.get(f"jobs/{first.pk}")["waiting"]
    assert (waiting["code"], waiting["message"], waiting["place"]) == (
        "paused",
        "the job is paused; once it is resumed it waits for its turn",
        None,
    )
    over(world)
    assert [state(job) for job in (first, second)] == ["waiting", "running"]
    third = world.submit(name="third")
    assert api.call("POST", f"jobs/{first.pk}/resume").json()["waiting"]["paused"] is False
    over(world)
    assert [state(job) for job in (first, third)] == ["running", "waiting"]
    assert [(one.code, one.message) for one in first.events.filter(actor="alice")] == [
        ("submitted", "alice/first#1 submitted to vision: 1 task, 1 GPU."),
        ("paused", "Paused by alice."),
        ("resumed", "Resumed by alice."),
    ]


def test_a_job_that_is_paused_while_it_is_decided_on_does_not_start(world: World) -> None:
    job = world.submit(name="late")
    world.nodes["gpu01"].finish()
    loaded = read()
    job_pause(job=job, actor="alice", now=world.now)
    assert carry_out(loaded, starts=[start(loaded, job, {0: "gpu01/0"})]).skipped == 1
    assert state(job) == "waiting"


def test_paused_twice_is_paused_once_and_a_running_job_is_not_paused(world: World) -> None:
    job, api = world.submit(name="second"), Api(world.user)
    assert [api.call("POST", f"jobs/{job.pk}/pause").status_code for _ in range(2)] == [200, 200]
    assert job.events.filter(code="paused").count() == 1
    running = Job.objects.get(name="holder")
    answer = api.call("POST", f"jobs/{running.pk}/pause")
    assert (answer.status_code, answer.json()["detail"]) == (
        409, "alice/holder#1 does not wait; only a waiting job can be paused.",
    )  # fmt: skip


def test_on_its_page_the_owner_pauses_and_resumes_it(world: World) -> None:
    job, browser = world.submit(name="second"), Browser(world.user)
    page = browser.send(f"/jobs/{job.pk}/pause", form=f"/jobs/{job.pk}")
    assert "Resume" in page.text
    page = browser.send(f"/jobs/{job.pk}/resume", form=f"/jobs/{job.pk}")
    assert "Pause" in page.text
    assert Job.objects.get(pk=job.pk).paused is False


def test_a_member_who_is_neither_owner_nor_lead_may_not(world: World) -> None:
    job = world.submit(name="second")
    member = Browser(cast_of(world.vc, world.user)["member"])
    assert "Pause" not in member.get(f"/jobs/{job.pk}").text
    assert member.send(f"/jobs/{job.pk}/pause", form="/profile").status == 403

"""One job from near."""

from __future__ import annotations

import io
from datetime import UTC, timedelta

import pytest
from pytest_django.fixtures import Settings

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.accounts.models import ClusterRole
from portal.code.services import code_upload
from portal.jobs.exits import END, verdict
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.wordings import TASK_FAILED
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser
from tests.support.run.archives import HELLO, packed

pytestmark = pytest.mark.django_db


def test_a_waiting_job_says_why_with_its_numbers_and_place(world: World, browser: Browser) -> None:
    world.submit(gpu=8)
    job = world.submit()
    world.cycle()
    page = browser.get(f"/jobs/{job.pk}")
    assert "alice/train#2" in page.text
    assert "Team vision holds 8 of its 8 A100, so none is left; this job needs 1." in page.text
    assert "Running for" not in page.text
    assert "Place 1 in the queue of vision." in page.text
    assert "The log appears here as soon as a task starts." in page.text


def test_a_running_job_shows_its_tasks_with_node_and_gpus_and_opens_a_log(world: World, browser: Browser) -> None:
    job = world.submit(instances=2)
    world.settle()
    page = browser.get(f"/jobs/{job.pk}")
    assert "2 running" in page.text
    assert {"gpu01: 0", "gpu01: 1"} <= {words.split(" Running ")[-1][:8] for words in _task_words(page.links)}
    first = TaskAttempt.objects.get(task__job=job, task__index=0)
    assert page.attribute("section", "data-log-socket") == [f"/ws/logs/{first.pk}"]
    assert page.links["Download"].startswith(f"/api/v1/jobs/{job.pk}/logs?task_attempt={first.pk}")


def test_while_the_tasks_of_a_failed_attempt_end_the_page_says_why(world: World, browser: Browser) -> None:
    job = world.submit(instances=2)
    world.settle()
    begun = world.now + timedelta(minutes=3)
    why = "Task worker/0 failed on gpu01: exit status 3 (an error): see the end of its log."
    said = TASK_FAILED(task="worker/0", node="gpu01", why=verdict("exited", 3).sentence)
    assert said == why
    job.attempts.update(state="ending", end_reason="failed", end_message=said, started_at=begun)
    page = browser.get(f"/jobs/{job.pk}")
    assert f"{why} Its containers are ending." in page.text
    assert "Its tasks are running." not in page.text
    assert "A task failed (its tasks are still ending)" in page.text
    assert page.html.count(f'datetime="{begun.isoformat()}"') == 1, "when the attempt ran, not when it was made"


def test_how_far_an_image_has_come_is_shown_while_it_is_fetched(world: World, browser: Browser) -> None:
    job = world.submit()
    world.settle()
    run = TaskAttempt.objects.filter(task__job=job)
    run.update(state="pulling", started_at=None, progress={"code": "image", "percent": 40, "message": "image 40 %"})
    page = browser.get(f"/jobs/{job.pk}")
    assert "gets its image 40 %" in page.text
    assert page.attribute("progress", "value") == ["40"]
    run.update(state="prepared", progress={})
    page = browser.get(f"/jobs/{job.pk}")
    assert "prepared" in page.text
    assert page.attribute("progress", "value") == []


def test_of_code_that_cannot_be_fetched_is_said_why_and_since_when_and_until_when_it_is_tried(
    world: World, browser: Browser, settings: Settings
) -> None:
    settings.GANG_PREPARE_TIMEOUT_S = 1200
    code, _ = code_upload(user=world.user, stream=io.BytesIO(packed(HELLO)), now=world.now)
    job = world.submit(berth={"code": code.name})
    world.settle()
    Job.objects.filter(pk=job.pk).update(state="starting")
    run = TaskAttempt.objects.filter(task__job=job)
    why = "Nothing listens where the portal should."
    run.update(state="pulling", started_at=None, progress={"code": "code_unavailable", "percent": None, "message": why})
    since = run.get().created_at
    page = browser.get(f"/jobs/{job.pk}")
    assert f"Task worker/0 on gpu01 cannot get the job's code. {why} It has been tried since" in page.text
    assert "gets its code" in page.text
    assert "gets its image" not in page.text
    for moment in (since, since + timedelta(seconds=1200)):
        assert f'datetime="{moment.isoformat()}"' in page.html
    older = {"code": "code", "percent": None, "message": f"waits for its code: {why}"}
    for other in ({"code": "code", "percent": 40, "message": "its code"}, older):
        run.update(progress=other)
        assert "It has been tried since" not in browser.get(f"/jobs/{job.pk}").text, other


def test_the_code_of_a_job_is_shown_and_downloaded_by_who_may_see_the_job(world: World, browser: Browser) -> None:
    archive = io.BytesIO(packed(HELLO))
    code, _ = code_upload(user=world.user, stream=archive, now=world.now)
    job = world.submit(berth={"code": code.name})
    assert browser.get(f"/jobs/{job.pk}").links[code.sha256[:12]] == f"/api/v1/code/{code.name}/archive"
    assert code.name in browser.get(f"/submit?again={job.pk}").text, "the same code comes with its clone"


def _task_words(links: dict[str, str]) -> list[str]:
    return [words for words, address in links.items() if "log=" in address]


def test_the_log_of_another_task_is_one_link_away(world: World, browser: Browser) -> None:
    job = world.submit(instances=2)
    world.settle()
    second = TaskAttempt.objects.get(task__job=job, task__index=1)
    page = browser.get(f"/jobs/{job.pk}")
    address = next(address for address in page.links.values() if str(second.pk) in address)
    chosen = browser.get(f"/jobs/{job.pk}{address}")
    assert chosen.attribute("section", "data-log-socket") == [f"/ws/logs/{second.pk}"]
    refreshed = chosen.attribute("div", "data-hx-get")[0]
    assert browser.get(refreshed, HX_Request="true").attribute("section", "data-log-socket") == [
        f"/ws/logs/{second.pk}"
    ]


def test_a_failed_job_says_its_cause_and_opens_the_log_of_the_task_that_failed(world: World, browser: Browser) -> None:
    node = world.nodes["gpu01"]
    job = world.submit(instances=2)
    world.settle()
    node.finish(code=3)
    page = browser.get(f"/jobs/{job.pk}")
    assert "exit status 3" in page.text
    assert "A task failed" in page.text
    assert "exit 3" in page.text
    assert "Stop" not in page.links


def test_a_task_that_failed_is_shown_before_one_that_was_stopped_for_it(world: World, browser: Browser) -> None:
    node = world.nodes["gpu01"]
    job = world.submit(instances=2)
    world.settle()
    _, second = TaskAttempt.objects.filter(task__job=job).order_by("task__index")
    (order,) = [order for order in node.desired().orders if order.attempt == str(second.pk)]
    node.end(order, Exit(cause=Cause.EXITED, code=3))
    node.report()
    world.settle()
    page = browser.get(f"/jobs/{job.pk}")
    assert "exit 143" in page.text
    assert page.attribute("section", "data-log-socket") == [f"/ws/logs/{second.pk}"]


def test_what_ended_each_attempt_stays_to_be_read(world: World, browser: Browser) -> None:
    node = world.nodes["gpu01"]
    job = world.submit(jobRetryCount=1)
    world.settle()
    node.finish(code=1)
    Job.objects.update(not_before=None)
    world.settle()
    page = browser.get(f"/jobs/{job.pk}")
    assert {page.links["1"], page.links["2"]} == {"?attempt=1", "?attempt=2"}
    ended = job.attempts.get(number=1).ended_at
    assert ended
    told = page.attribute("time", "datetime").count(ended.astimezone(UTC).isoformat())
    assert told == 2, "in the state line and among the attempts"
    earlier = browser.get(f"/jobs/{job.pk}?attempt=1")
    assert "of attempt 1" in earlier.text
    assert "exit 1" in earlier.text


def test_the_job_file_is_shown_with_its_secrets_masked(world: World, browser: Browser) -> None:
    job = world.submit(secrets={"key": "hunter2"}, commands=["echo <% $secrets.key %>"])
    page = browser.get(browser.get(f"/jobs/{job.pk}").links["Job file"])
    assert "echo <% $secrets.key %>" in page.text
    assert "hunter2" not in page.html


def test_each_section_has_its_own_address_and_stays_there_when_it_is_refreshed(world: World, browser: Browser) -> None:
    job = world.submit()
    world.settle()
    first = browser.get(f"/jobs/{job.pk}")
    for name, path in {"Log": "", "Events": "/events", "Job file": "/file"}.items():
        assert first.links[name] == f"/jobs/{job.pk}{path}"
        page = browser.get(first.links[name])
        (refreshed,) = page.attribute("div", "data-hx-get")
        assert refreshed.partition("?")[0] == f"/jobs/{job.pk}{path}"
        assert page.attribute("a", "aria-current")[:2] == ["page", "page"]
        part = browser.get(refreshed, HX_Request="true")
        assert "<html" not in part.html
        assert part.attribute("div", "data-hx-get") == [refreshed]
    assert "Attempt 1 runs." in browser.get(first.links["Events"]).text
    assert browser.get(f"/jobs/{job.pk}/nonsense").status == 404


def test_what_a_job_is_called_and_says_is_text_and_never_markup(world: World, browser: Browser) -> None:
    job = world.submit(description="<script>alert(1)</script>", commands=["echo '<img src=x onerror=alert(1)>'"])
    Job.objects.filter(pk=job.pk).update(end_message=END(what="<b>bold</b>"), state="failed")
    page = browser.get(f"/jobs/{job.pk}")
    assert not page.attribute("img", "onerror")
    assert "<script>alert" not in page.html
    assert "<b>bold</b>" in page.text


@pytest.mark.parametrize("who", ["lead", "owner", "admin", "group_lead"])
def test_who_may_stop_a_job_is_asked_and_then_it_stops(world: World, who: str) -> None:
    job = world.submit()
    people = cast_of(world.vc, world.user)
    browser = Browser(people[who])
    address = browser.get(f"/jobs/{job.pk}").links["Stop"]
    assert "Stop alice/train#1?" in browser.get(address).text
    page = browser.send(address)
    assert "Stopped" in page.text
    assert Job.objects.get(pk=job.pk).state == "stopped"
    assert f"Stopped by {people[who].username}" in page.text


@pytest.mark.parametrize("who", ["member", "auditor"])
def test_who_may_only_read_a_job_finds_no_way_to_stop_it(world: World, who: str) -> None:
    job = world.submit()
    browser = Browser(cast_of(world.vc, world.user)[who])
    page = browser.get(f"/jobs/{job.pk}")
    assert page.status == 200
    assert "Stop" not in page.links
    assert browser.send(f"/jobs/{job.pk}/stop", form="/profile").status == 403
    assert Job.objects.get(pk=job.pk).state == "waiting"


@pytest.mark.parametrize("who", ["other", "nobody"])
def test_a_job_that_one_may_not_see_does_not_exist(world: World, who: str) -> None:
    job = world.submit()
    browser = Browser(cast_of(world.vc, world.user)[who])
    assert browser.get(f"/jobs/{job.pk}").status == 404
    assert browser.get(f"/jobs/{job.pk}/stop").status == 404
    assert browser.get(f"/submit?again={job.pk}").status == 404


def test_a_log_of_another_job_is_not_shown_under_this_one(world: World, browser: Browser) -> None:
    first, second = world.submit(), world.submit()
    world.settle()
    run = TaskAttempt.objects.get(task__job=second)
    assert browser.get(f"/jobs/{first.pk}?log={run.pk}").status == 404
    assert browser.get(f"/jobs/{first.pk}?log=nonsense").status == 404


def test_a_job_of_many_tasks_takes_as_many_queries_as_one_of_one(world: World, browser: Browser) -> None:
    small, large = world.submit(), world.submit(instances=7)
    world.settle()
    assert browser.queries(f"/jobs/{large.pk}") == browser.queries(f"/jobs/{small.pk}")


def test_thousands_of_tasks_are_paged(world: World, browser: Browser) -> None:
    job = world.submit(instances=450, gpu=0, gang=False)
    page = browser.get(f"/jobs/{job.pk}")
    assert "worker/199" in page.text
    assert "worker/200" not in page.text
    later = browser.get(f"/jobs/{job.pk}{page.links['Later tasks']}")
    assert "worker/200" in later.text
    assert "Earlier tasks" in later.links


def test_an_administrator_of_the_cluster_sees_every_job(world: World) -> None:
    job = world.submit()
    assert Browser(person("root", ClusterRole.ADMIN)).get(f"/jobs/{job.pk}").status == 200

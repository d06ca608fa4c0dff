"""The terminal on a job's page: for whom, into which task, and what is said where none runs."""

from __future__ import annotations

import pytest

from portal.accounts.models import ClusterRole
from portal.jobs.models import TaskAttempt
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


def test_the_owner_gets_a_terminal_into_a_running_task_and_may_choose_another(world: World, browser: Browser) -> None:
    job = world.submit(instances=2)
    world.settle()
    first, second = TaskAttempt.objects.filter(task__job=job).order_by("task__index")
    page = browser.get(browser.get(f"/jobs/{job.pk}").links["Terminal"])
    assert page.attribute("section", "data-terminal-socket") == [f"/ws/exec/{first.pk}"]
    assert "another user's job" not in page.text
    chosen = browser.get(f"/jobs/{job.pk}/terminal?task={second.pk}")
    assert chosen.attribute("section", "data-terminal-socket") == [f"/ws/exec/{second.pk}"]
    frame = browser.get(f"/jobs/{job.pk}/terminal", HX_Request="true")
    assert frame.attribute("section", "data-terminal-socket") == [], "what is open stays as it is"


def test_a_member_and_a_lead_find_no_link_and_are_told_who_may(world: World) -> None:
    job = world.submit()
    world.settle()
    for role in ("member", "lead"):
        user = person(role)
        member_set(vc=world.vc, user=user, role=role, now=world.now)
        page = Browser(user).get(f"/jobs/{job.pk}")
        assert page.status == 200
        assert "Terminal" not in page.links
        refused = Browser(user).get(f"/jobs/{job.pk}/terminal")
        assert refused.status == 403
        assert "Only its owner or an administrator may open a shell in a job." in refused.text


def test_an_administrator_is_told_that_it_is_noted(world: World) -> None:
    job = world.submit()
    world.settle()
    page = Browser(person("root", ClusterRole.ADMIN)).get(f"/jobs/{job.pk}/terminal")
    assert "The audit log notes that you open a terminal in it." in page.text


def test_where_no_task_runs_it_says_so(world: World, browser: Browser) -> None:
    world.submit(gpu=8)
    waiting = world.submit()
    world.cycle()
    assert "No task runs now." in browser.get(f"/jobs/{waiting.pk}/terminal").text


def test_an_ended_job_has_no_terminal(world: World, browser: Browser) -> None:
    job = world.submit()
    world.settle()
    world.nodes["gpu01"].finish()
    world.cycle()
    assert "Terminal" not in browser.get(f"/jobs/{job.pk}").links
    assert "The job has ended" in browser.get(f"/jobs/{job.pk}/terminal").text

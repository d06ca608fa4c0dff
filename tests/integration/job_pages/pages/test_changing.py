"""Tags and the priority class, changed on the job's own page."""

from __future__ import annotations

import pytest

from portal.jobs.models import Job
from portal.jobs.services.pause import job_pause
from portal.teams.models import VirtualCluster
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db


def test_tags_are_given_and_taken_off_and_what_can_be_no_tag_is_said_beside_the_field(
    world: World, browser: Browser
) -> None:
    job = world.submit()
    at, page = f"/jobs/{job.pk}", browser.get(f"/jobs/{job.pk}")
    assert "Add a tag" in page.text
    page = browser.send(f"{at}/tags", form=at, tags=" baseline, lr 0.1 ,", section="events")
    assert [page.links["baseline"], page.links["lr 0.1"]] == ["/jobs?tag=baseline", "/jobs?tag=lr%200.1"]
    assert "/events" in page.attribute("div", "data-hx-get")[0]
    page = browser.send(f"{at}/tags", form=at, remove="baseline")
    assert "baseline" not in page.links
    page = browser.send(f"{at}/tags", form=at, tags="x" * 300)
    assert page.status == 400
    assert "A tag has 1 to 255 characters and no comma." in page.text
    assert "x" * 300 in page.attribute("input", "value"), "what was typed is kept"
    assert list(job.tags.values_list("name", flat=True)) == ["lr 0.1"]


def test_the_page_offers_the_classes_that_one_may_give_and_says_why_another_is_refused(
    world: World, browser: Browser
) -> None:
    VirtualCluster.objects.update(member_class="prod", lead_class="crit")
    job = world.submit()
    at = f"/jobs/{job.pk}"
    assert _offered(browser.get(at)) == ["prod", "test", "oppo"]
    page = browser.send(f"{at}/priority", form=at, priority="prod")
    assert "Priority Production" in page.text
    page = browser.send(f"{at}/priority", form=at, priority="crit")
    assert (page.status, "Critical (crit) is above Production (prod)" in page.text) == (400, True)
    assert browser.send(f"{at}/priority", form=at, priority="none").status == 400
    world.settle()
    assert _offered(browser.get(at)) == ["prod", "test"], "what runs cannot become opportunistic"
    page = browser.send(f"{at}/priority", form=at, priority="oppo")
    assert (page.status, "only while it waits" in page.text) == (400, True)
    assert Job.objects.get(pk=job.pk).priority == 100


def test_who_may_not_change_them_sees_them_and_is_refused(world: World) -> None:
    job = world.submit()
    people = cast_of(world.vc, world.user)
    owner, member, lead = (Browser(people[name]) for name in ("owner", "member", "lead"))
    job_pause(job=job, actor="alice", now=world.now)
    lead.send(f"/jobs/{job.pk}/tags", form=f"/jobs/{job.pk}", tags="sweep")
    page = member.get(f"/jobs/{job.pk}")
    assert "sweep" in page.links
    assert "Add a tag" not in page.text
    assert _offered(page) == []
    for path, sent in (("tags", {"tags": "mine"}), ("priority", {"priority": "oppo"})):
        assert member.send(f"/jobs/{job.pk}/{path}", form="/jobs", **sent).status == 403
        assert Browser(people["other"]).send(f"/jobs/{job.pk}/{path}", form="/jobs", **sent).status == 404
    assert "Add a tag" in owner.get(f"/jobs/{job.pk}").text


def test_more_tags_take_no_more_queries_and_a_job_that_is_over_keeps_its_class(world: World, browser: Browser) -> None:
    job = world.submit()
    browser.get(f"/jobs/{job.pk}")  # what is kept of the cluster from one page to the next
    before = browser.queries(f"/jobs/{job.pk}")
    browser.send(f"/jobs/{job.pk}/tags", form=f"/jobs/{job.pk}", tags="a,b,c,d,e")
    assert browser.queries(f"/jobs/{job.pk}") == before
    browser.send(f"/jobs/{job.pk}/stop")
    assert _offered(browser.get(f"/jobs/{job.pk}")) == []


def _offered(page: Page) -> list[str]:
    return [value for value in page.attribute("option", "value") if value in {"crit", "prod", "test", "oppo"}]

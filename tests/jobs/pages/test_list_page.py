"""The list of jobs: several filters, orders, saved views, tags, and what is done to several jobs at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.clusters.services import vc_create
from portal.jobs.models import Job, SavedView
from portal.jobs.services import job_tag
from tests.support.cast import cast_of, person
from tests.support.pages import Browser
from tests.support.world import World

pytestmark = pytest.mark.django_db

NAMES = ("alpha", "beta", "gamma")


@pytest.fixture
def jobs(world: World) -> list[Job]:
    """Alpha failed three days ago, beta waits with a tag, gamma is of the class Opportunistic."""
    made = [world.submit(name=name) for name in NAMES]
    now = timezone.now()
    Job.objects.filter(pk=made[0].pk).update(state="failed", submitted_at=now - timedelta(days=3))
    job_tag(job=made[1], add=["my sweep"], actor=world.user, now=now)
    Job.objects.filter(pk=made[2].pk).update(priority=-1)
    return made


def shown(browser: Browser, query: str) -> list[str]:
    """The names of the jobs listed, in order."""
    page = browser.get(f"/jobs?{query}")
    assert page.status == 200
    return [text.removeprefix("alice/").removesuffix("#1") for text in page.links if text.startswith("alice/")]


def test_filters_and_orders_go_together(jobs: list[Job], browser: Browser, subtests: pytest.Subtests) -> None:
    yesterday = f"{timezone.now() - timedelta(days=1):%Y-%m-%d}"
    for query, names in [
        ("state=failed&state=waiting", ["gamma", "beta", "alpha"]),
        ("state=failed&state=running", ["alpha"]),
        ("state=over&state=waiting&tag=my+sweep", ["beta"]),
        ("priority=oppo", ["gamma"]),
        ("priority=oppo&priority=test&sort=priority", ["beta", "alpha", "gamma"]),
        ("sort=name", ["alpha", "beta", "gamma"]),
        ("sort=oldest", ["alpha", "beta", "gamma"]),
        ("tag=none", []),
        ("since={yesterday}", ["gamma", "beta"]),
        ("until={yesterday}", ["alpha"]),
        ("since=yesterday&sort=nothing&priority=none", ["gamma", "beta", "alpha"]),
    ]:
        with subtests.test(query=query):
            assert shown(browser, query.format(yesterday=yesterday)) == names


@pytest.mark.parametrize("sort", ["", "oldest", "name", "priority"])
def test_every_order_is_paged_without_a_gap(
    jobs: list[Job], browser: Browser, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    whole = shown(browser, f"sort={sort}")
    monkeypatch.setattr("portal.jobs.selectors.pages.jobs_found.__kwdefaults__", {"limit": 1})
    page, found = browser.get(f"/jobs?sort={sort}"), []
    for _ in whole:
        found += [text for text in page.links if text.startswith("alice/")]
        page = browser.get(page.links["Older"]) if "Older" in page.links else page
    assert [text.removeprefix("alice/").removesuffix("#1") for text in found] == whole


def test_a_tag_stands_beside_its_job_and_leads_to_all_that_have_it(jobs: list[Job], browser: Browser) -> None:
    page = browser.get("/jobs")
    assert page.links["my sweep"] == "/jobs?tag=my%20sweep"
    assert shown(browser, "tag=my%20sweep") == ["beta"]


def test_a_view_is_saved_shown_and_removed(jobs: list[Job], browser: Browser) -> None:
    page = browser.send("/jobs/views", form="/jobs?state=failed", query="state=failed&colour=red", name="Broken ones")
    assert page.links["Broken ones"] == "/jobs?state=failed"
    assert "Remove the view Broken ones" in page.text
    view = SavedView.objects.get()
    assert "Broken ones" not in browser.send(f"/jobs/views/{view.pk}/remove", form="/jobs?state=failed").links
    assert browser.get("/jobs").links["Mine that failed"] == "/jobs?mine=on&state=failed"


def test_a_view_without_a_name_is_refused(jobs: list[Job], browser: Browser) -> None:
    page = browser.send("/jobs/views", form="/jobs?state=failed", query="state=failed", name=" ")
    assert "Give the view a name" in page.text
    assert not SavedView.objects.exists()


def test_chosen_jobs_are_stopped_after_a_question_with_what_became_of_each(jobs: list[Job], browser: Browser) -> None:
    asked = browser.send("/jobs/bulk", form="/jobs", job=[jobs[0].pk, jobs[1].pk], do="stop", query="mine=on")
    assert "Stop these 2 jobs?" in asked.text
    assert Job.objects.get(pk=jobs[1].pk).state == "waiting"
    done = browser.send("/jobs/bulk", form="/jobs", job=[jobs[0].pk, jobs[1].pk], do="stop", sure="on", query="mine=on")
    assert "alice/alpha#1 is over already: it failed." in done.text
    assert Job.objects.get(pk=jobs[1].pk).state == "stopped"
    assert done.links["Back to the jobs"] == "/jobs?mine=on"


def test_chosen_jobs_get_a_tag_and_lose_it(jobs: list[Job], browser: Browser) -> None:
    for do, has in (("tag", True), ("untag", False)):
        browser.send("/jobs/bulk", form="/jobs", job=[jobs[0].pk], do=do, tag="old")
        assert jobs[0].tags.filter(name="old").exists() is has
    assert "no comma" in browser.send("/jobs/bulk", form="/jobs", job=[jobs[0].pk], do="tag", tag="a,b").text
    assert "Choose one or more jobs first." in browser.send("/jobs/bulk", form="/jobs", do="tag", tag="a").text


def test_only_what_the_right_covers_can_be_chosen(jobs: list[Job], world: World) -> None:
    member = Browser(cast_of(world.vc, world.user)["member"])
    assert "alice/beta#1" in member.get("/jobs").links
    assert member.get("/jobs").attribute("input", "form") == []
    assert len(Browser(world.user).get("/jobs").attribute("input", "form")) == len(jobs)


def test_more_tags_and_views_take_no_more_queries(jobs: list[Job], world: World, browser: Browser) -> None:
    before = browser.queries("/jobs")
    for job in jobs:
        job_tag(job=job, add=["a", "b", "c"], actor=world.user, now=timezone.now())
    SavedView.objects.bulk_create(SavedView(user=world.user, name=f"view {number}") for number in range(5))
    assert browser.queries("/jobs") == before


def test_a_list_cannot_be_gone_on_with_behind_a_job_that_one_may_not_see(
    jobs: list[Job], world: World, browser: Browser
) -> None:
    """Else one could find out its name, letter by letter."""
    hidden = world.submit(name="beta-and-more")
    Job.objects.filter(pk=hidden.pk).update(user=person("bob"), vc=vc_create(name="audio", now=timezone.now()))
    assert shown(browser, f"sort=name&before={hidden.pk}") == shown(browser, "sort=name")

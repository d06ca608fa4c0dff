"""The list of jobs: several filters, orders, saved views, tags, and what is done to several jobs at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.jobs.models import Job, JobTag, SavedView
from portal.jobs.services.tags import job_tag
from portal.teams.services.teams import vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of, person
from tests.support.people.pages import Browser, Page
from tests.support.services.restarted import requeued, restarted

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


def test_folded_filters_say_how_many_are_set(jobs: list[Job], browser: Browser) -> None:
    assert "Filters (3)" in browser.get("/jobs?state=failed&state=waiting&tag=x&mine=on&sort=name").text
    assert "Filters (" not in browser.get("/jobs?sort=name").text
    folded = browser.get("/jobs?until=nonsense").html.partition('class="filters-fold"')[2]
    assert folded.startswith(" open"), "what is wrong is seen"


def test_a_filter_that_cannot_be_is_told_beside_its_field_and_the_others_hold(
    jobs: list[Job], browser: Browser
) -> None:
    page = browser.get("/jobs?since=yesterday&priority=oppo&tag=" + "x" * 300)
    assert "“yesterday”: There is no such day; write it as 2026-12-31." in page.text
    assert "Ensure this value has at most 255 characters" in page.text
    assert "yesterday" in page.attribute("input", "value")
    assert ("alice/gamma#1" in page.links, "alice/alpha#1" in page.links) == (True, False)
    assert "This is before the first day." in browser.get("/jobs?since=2026-02-02&until=2026-02-01").text
    assert "“nothing”: Select a valid choice." in browser.get("/jobs?sort=nothing").text
    assert "field-error" not in browser.get("/jobs?since=2026-02-02&state=failed").html


def test_a_user_who_is_named_whole_is_that_one_alone(jobs: list[Job], browser: Browser) -> None:
    Job.objects.filter(pk=jobs[0].pk).update(user=person("alice2"))
    assert shown(browser, "user=alice") == ["gamma", "beta"]
    assert "alice2/alpha#1" in browser.get("/jobs?user=lice").links


@pytest.mark.parametrize("sort", ["", "oldest", "name", "priority"])
def test_every_order_is_paged_without_a_gap(
    jobs: list[Job], browser: Browser, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    whole = shown(browser, f"sort={sort}")
    monkeypatch.setattr("portal.job_pages.selectors.jobs_found.__kwdefaults__", {"limit": 1})
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


def field(page: Page, name: str) -> str:
    """What stands in a text field of the forms that change something."""
    (value,) = [named.get("value", "") for _tag, named in page.tags if named.get("id") == name]
    return value


@pytest.mark.parametrize("name", [" ", "n" * 61, "a\0b"])
def test_a_view_without_a_possible_name_is_refused_beside_it_on_the_same_list(
    jobs: list[Job], browser: Browser, name: str
) -> None:
    page = browser.send("/jobs/views", form="/jobs?state=failed", query="state=failed", name=name)
    assert page.status == 400
    assert ("Give the view a name of 1 to 60 letters." in page.text) == ("\0" not in name)
    assert page.attribute("div", "role").count("alert") == 1
    assert field(page, "view-name") == name
    assert [named["class"] for tag, named in page.tags if tag == "details" and "open" in named] == ["menu menu-start"]
    assert [link for link in page.links if link.startswith("alice/")] == ["alice/alpha#1"], "the filters are kept"
    assert not SavedView.objects.exists()


def test_one_view_too_many_is_refused_beside_its_name(jobs: list[Job], world: World, browser: Browser) -> None:
    SavedView.objects.bulk_create(SavedView(user=world.user, name=f"view {number}") for number in range(50))
    page = browser.send("/jobs/views", form="/jobs", query="state=failed", name="one more")
    assert (page.status, field(page, "view-name")) == (400, "one more")
    assert "You have 50 views already; remove one that you do not need." in page.text


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


WRONG = [
    ("tag", "a,b", "A tag has 1 to 255 characters and no comma."),
    ("tag", "", "A tag has 1 to 255 characters and no comma."),
    ("untag", "", "A tag has 1 to 255 characters and no comma."),
    ("burn", "a", "Choose what to do."),
]


@pytest.mark.parametrize(("do", "tag", "complaint"), WRONG)
def test_what_cannot_be_done_is_said_in_place_and_jobs_and_words_stay(
    jobs: list[Job], browser: Browser, do: str, tag: str, complaint: str
) -> None:
    sent = {"job": [jobs[0].pk, jobs[1].pk], "do": do, "tag": tag, "query": "state=failed"}
    page = browser.send("/jobs/bulk", form="/jobs", **sent)
    assert (page.status, field(page, "bulk-tag")) == (400, tag)
    assert complaint in page.text
    assert [link for link in page.links if link.startswith("alice/")] == ["alice/alpha#1"], "the filters are kept"
    assert "Chosen too, and not on this page: alice/beta#1" in page.text
    assert ticked(page) == {str(jobs[0].pk), str(jobs[1].pk)}
    assert not JobTag.objects.filter(job=jobs[0]).exists()


def ticked(page: Page) -> set[str]:
    """The jobs that are chosen."""
    boxes = [named for _tag, named in page.tags if named.get("name") == "job" and "checked" in named]
    return {named["value"] for named in boxes}


def test_nothing_chosen_is_said_in_place_and_what_was_typed_stays(jobs: list[Job], browser: Browser) -> None:
    page = browser.send("/jobs/bulk", form="/jobs", do="tag", tag="mine")
    assert (page.status, field(page, "bulk-tag"), ticked(page)) == (400, "mine", set())
    assert "Choose one or more jobs first." in page.text


def test_jobs_of_others_are_not_told_of_by_choosing_them(jobs: list[Job], world: World) -> None:
    page = Browser(person("bob")).send("/jobs/bulk", form="/profile", job=[jobs[0].pk], do="tag", tag="")
    assert (page.status, "alpha" in page.text) == (400, False)


def test_an_older_page_of_the_list_stays_where_it_was(
    jobs: list[Job], browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.job_pages.selectors.jobs_found.__kwdefaults__", {"limit": 1})
    address = browser.get("/jobs").links["Older"]
    sent = {"job": [jobs[1].pk], "do": "tag", "query": address.partition("?")[2]}
    page = browser.send("/jobs/bulk", form=address, tag="", **sent)
    assert [link for link in page.links if link.startswith("alice/")] == ["alice/beta#1"]
    assert browser.send("/jobs/bulk", form=address, tag="old", **sent).links["Back to the jobs"] == address


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


def test_how_long_a_job_lasted_is_how_long_it_ran(world: World, browser: Browser) -> None:
    api = Api(world.user)
    job = restarted(world)
    (row,) = api.get("jobs")["results"]
    assert (row["ran_s"], row["running_since"][:19]) == (600, (world.now - timedelta(minutes=5)).isoformat()[:19])
    as_if = int((world.now - timedelta(minutes=15)).timestamp() * 1000)
    for address in ("/jobs", "/", f"/jobs/{job.pk}"):
        assert f'data-ticking="{as_if}">15 min' in browser.get(address).html, address
    requeued(job, state="waiting")
    assert [api.get(f"jobs/{job.pk}")[name] for name in ("ran_s", "running_since")] == [900, None]
    for address in ("/jobs", "/"):
        assert 'data-title="Lasted">–<' in browser.get(address).html, address
    requeued(job, state="stopped", ended_at=world.now)
    for address in ("/jobs", "/", f"/jobs/{job.pk}"):
        assert ">15 min<" in browser.get(address).html, address

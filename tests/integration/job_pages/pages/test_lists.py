"""Home and the list of jobs."""

from __future__ import annotations

import pytest

from portal.accounts.models import ClusterRole
from portal.hardware.models import Node
from portal.jobs.models import Job
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


def test_home_counts_my_jobs_shows_my_share_and_the_free_gpus(world: World, browser: Browser) -> None:
    world.submit(instances=2)
    world.settle()
    world.submit(instances=2)
    page = browser.get("/")
    assert "1 Waiting" in page.text
    assert "1 Running" in page.text
    assert "2 of 8 used, 6 unused" in page.text
    assert page.links["alice/train#2"].startswith("/jobs/")


def test_home_and_the_submit_page_say_that_no_server_takes_new_jobs(world: World, browser: Browser) -> None:
    assert "No server takes new jobs." not in browser.get("/").text
    Node.objects.update(intent="draining", intent_reason="a new <fan>")
    for path in ("/", "/submit"):
        page = browser.get(path)
        assert "No server takes new jobs. gpu01: 1 draining (a new <fan>)" in page.text
        assert "Ask an administrator when that will be." in page.text
    assert "No problems" not in browser.get("/alerts/brief").text
    told = Browser(person("root", ClusterRole.ADMIN))
    Node.objects.update(clock_skew_ms=90_000)
    assert "No server takes new jobs." in told.get("/alerts").text
    brief = told.get("/alerts/brief").text
    assert ("Its clock is 90 s ahead" in brief, "No server takes new jobs" in brief) == (True, False), "home says it"


def test_home_of_a_newcomer_says_what_to_do_next(db: None) -> None:
    page = Browser(person("new")).get("/")
    assert "You have not submitted a job yet." in page.text
    assert "You are in no virtual cluster. Ask the lead of your team" in page.text
    assert "No GPU has been reported yet." in page.text
    root = Browser(person("root", ClusterRole.ADMIN)).get("/")
    assert "Ask the lead" not in root.text
    assert root.links["Virtual clusters"] == "/virtual-clusters", "who may add anybody needs to ask nobody"


def test_the_list_shows_what_passes_its_filters(world: World, browser: Browser, subtests: pytest.Subtests) -> None:
    jobs = [world.submit(name=name) for name in ("train", "other", "late")]
    Job.objects.filter(pk=jobs[0].pk).update(state="running")
    Job.objects.filter(pk=jobs[2].pk).update(state="failed")
    for query, shown in [
        ("", ["train#1", "other#1", "late#1"]),
        ("state=running", ["train#1"]),
        ("state=live", ["train#1", "other#1"]),
        ("state=over", ["late#1"]),
        ("vc=vision", ["train#1", "other#1", "late#1"]),
        ("text=TRAI", ["train#1"]),
        ("text=alice", []),
        ("user=alice", ["train#1", "other#1", "late#1"]),
        ("user=LIC&text=other", ["other#1"]),
        ("user=bob", []),
        ("mine=on&state=waiting", ["other#1"]),
        ("state=nonsense&vc=nowhere", ["train#1", "other#1", "late#1"]),
        ("text=nothing", []),
    ]:
        with subtests.test(query=query):
            page = browser.get(f"/jobs?{query}")
            assert [name for name in ("train#1", "other#1", "late#1") if f"alice/{name}" in page.links] == shown
            assert ("No job that you may see matches these filters." in page.text) == (not shown)


def test_the_list_is_paged_from_the_newest_and_keeps_its_filter(world: World, browser: Browser) -> None:
    first = world.submit()
    rows = [_again(first, run) for run in range(2, 60)]
    Job.objects.bulk_create(rows)
    page = browser.get("/jobs?mine=on")
    assert "alice/train#59" in page.links
    assert "alice/train#9" not in page.links
    older = browser.get(page.links["Older"])
    assert "alice/train#9" in older.links
    assert "alice/train#10" not in older.links
    assert "mine=on" in older.links["Newest"]


def _again(job: Job, run: int) -> Job:
    same = ("user", "vc", "name", "priority", "spec", "config", "submitted_at")
    return Job(run=run, **{name: getattr(job, name) for name in same})


def test_more_jobs_take_no_more_queries(world: World, browser: Browser) -> None:
    world.submit()
    browser.get("/")  # which keeps who holds what
    before = [browser.queries(path) for path in ("/", "/jobs")]
    for _ in range(4):
        world.submit()
    assert [browser.queries(path) for path in ("/", "/jobs")] == before


def test_only_jobs_that_one_may_see_are_listed(world: World) -> None:
    world.submit()
    people = cast_of(world.vc, world.user)
    seen = {who: "alice/train#1" in Browser(user).get("/jobs").links for who, user in people.items()}
    assert {who for who, sees in seen.items() if not sees} == {"other", "nobody"}


def test_a_refreshed_part_is_the_part_of_the_page(world: World, browser: Browser) -> None:
    world.submit()
    for path in ("/", "/jobs"):
        whole, part = browser.get(path), browser.get(path, HX_Request="true")
        assert "<html" not in part.html
        assert part.html.strip() in whole.html


def test_a_page_asks_again_and_again_only_while_something_runs(world: World, browser: Browser) -> None:
    job = world.submit()
    assert browser.get("/jobs").attribute("div", "data-live-poll") == ["5"]
    Job.objects.filter(pk=job.pk).update(state="failed")
    assert browser.get("/jobs").attribute("div", "data-live-poll") == []


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/1", "/submit", "/cluster", "/profile"])
def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_back(db: None, path: str) -> None:
    page = Browser().get(path)
    assert (page.status, page.headers["Location"]) == (302, f"/login?next={path}")

"""Lists: what filters find, how pages go on while rows come, and that no list asks the database row by row."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from urllib.parse import quote, urlencode, urlsplit

import pytest
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from portal.accounts.models import User
from portal.clusters.services import member_set
from portal.jobs.models import Job
from tests.support.cast import Api, person
from tests.support.redis_server import RedisServer
from tests.support.world import World, job_file

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob(world: World) -> User:
    bob = person("bob")
    member_set(vc=world.vc, user=bob, role="member", now=timezone.now())
    return bob


def test_jobs_are_found_by_state_team_user_name_and_time(world: World, api: Api, bob: User) -> None:
    world.node("gpu01", gpus=1)
    old, running, waiting = (world.submit(name=name) for name in ("evaluate", "train-a", "train-b"))
    Api(bob).call("POST", "jobs", job_file(name="other"), kind="text/yaml")
    Job.objects.filter(pk=old.pk).update(submitted_at=timezone.now() - timedelta(days=1))
    world.cycle()
    since = quote((timezone.now() - timedelta(hours=1)).isoformat())
    expected = {
        "": ["other", "train-b", "train-a", "evaluate"],
        "state=starting": ["evaluate"],
        "state=starting&state=waiting&user=alice": ["train-b", "train-a", "evaluate"],
        "name=TRAIN": ["train-b", "train-a"],
        "user=bob": ["other"],
        f"since={since}": ["other", "train-b", "train-a"],
        "vc=vision&limit=1": ["other"],
        "vc=nothing": [],
    }
    assert {query: api.names(f"jobs?{query}", "name") for query in expected} == expected
    assert (old.name, running.name, waiting.name) == ("evaluate", "train-a", "train-b")


BAD_QUERIES = {
    "state=dead": "state", "since=yesterday": "since", "limit=0": "limit", "limit=201": "limit", "limit=x": "limit",
    "cursor=x": "cursor", "fields=": "fields", "fields=id,secret": "fields", "name=%00": "name",
    "user=": "user", "since=": "since",
}  # fmt: skip


@pytest.mark.parametrize("query", BAD_QUERIES)
def test_a_filter_that_cannot_be_is_refused_by_name_not_ignored(api: Api, query: str) -> None:
    answer = api.call("GET", f"jobs?{query}")
    assert answer.status_code == 400
    assert [fault["path"] for fault in json.loads(answer.content)["errors"]] == [BAD_QUERIES[query]]


@pytest.mark.parametrize("query", ["offset=-1", "offset=x", "limit=0", "vc="])
def test_a_wrong_page_of_the_queue_is_refused(api: Api, query: str) -> None:
    assert api.call("GET", f"queue?{query}").status_code == 400


FORGED = [{"p": "1; DROP"}, {"p": "9" * 40}, {"p": "\0"}, {"o": "x"}, {"r": "x"}]


@pytest.mark.parametrize("tokens", FORGED)
def test_a_forged_cursor_never_reaches_the_database(api: Api, tokens: dict[str, str]) -> None:
    cursor = base64.b64encode(urlencode(tokens).encode()).decode()
    for path in ("jobs", "tokens"):
        assert api.call("GET", f"{path}?cursor={quote(cursor)}").status_code == 400


def test_a_cursor_of_a_list_by_name_holds_a_name(world: World, api: Api) -> None:
    for text, status in {"gpu00": 200, "a b": 400, "\0": 400, "x" * 65: 400}.items():
        cursor = base64.b64encode(urlencode({"p": text}).encode()).decode()
        assert api.call("GET", f"nodes?cursor={quote(cursor)}").status_code == status, text


def test_pages_hold_every_job_once_also_when_new_ones_come_in_between(world: World, api: Api) -> None:
    world.node("gpu01")
    there = [world.submit().pk for _ in range(5)]
    page = api.get("jobs?limit=2")
    seen = [row["id"] for row in page["results"]]
    while page["next"]:
        world.submit()
        page = api.get("jobs?" + urlsplit(page["next"]).query)
        seen += [row["id"] for row in page["results"]]
    assert seen == sorted(there, reverse=True)


def test_one_may_ask_for_some_fields_only(world: World, api: Api) -> None:
    world.node("gpu01")
    job = world.submit()
    assert api.get("jobs?fields=id,state")["results"] == [{"id": job.pk, "state": "waiting"}]


def test_the_queue_is_in_the_order_of_priority_then_submission_with_places_by_team(world: World, api: Api) -> None:
    world.node("gpu01", gpus=1)
    prod = {"hivedScheduler": {"jobPriorityClass": "prod"}}
    world.submit(name="running", extras=prod)
    world.cycle()
    first, second = world.submit(name="first"), world.submit(name="second")
    urgent = world.submit(name="urgent", extras=prod)
    world.cycle()
    rows = api.get("queue")["results"]
    assert [(row["job"], row["place"]) for row in rows] == [(urgent.pk, 1), (first.pk, 2), (second.pk, 3)]
    assert api.names("queue?vc=vision&limit=1&offset=2", "job") == [second.pk]
    assert api.names("queue?vc=nothing", "job") == []


def test_the_queue_is_as_the_last_plan_had_it_and_who_came_since_stands_last_without_a_place(
    world: World, api: Api
) -> None:
    world.node("gpu01", gpus=1)
    world.submit()
    world.cycle()
    first = world.submit()
    world.cycle()
    urgent = world.submit(extras={"hivedScheduler": {"jobPriorityClass": "prod"}})
    rows = api.get("queue")["results"]
    assert [(row["job"], row["place"]) for row in rows] == [(first.pk, 1), (urgent.pk, None)]


def test_without_redis_the_queue_is_told_without_places(world: World, api: Api, redis_server: RedisServer) -> None:
    world.node("gpu01", gpus=1)
    jobs = [world.submit() for _ in range(3)]
    world.cycle()
    redis_server.restart_empty()
    rows = api.get("queue")["results"]
    assert [(row["job"], row["place"], row["start"]) for row in rows] == [(job.pk, None, None) for job in jobs[1:]]


LISTS = ["jobs", "queue", "nodes", "virtual-clusters", "tokens", "skus", "jobs/{0}/tasks", "jobs/{0}/events"]
DETAILS = ["jobs/{0}", "jobs/{0}/attempts", "nodes/gpu01", "virtual-clusters/vision", "me"]


def grow(world: World) -> Job:
    """One more of everything that lists show; the job of two tasks that runs."""
    number = len(world.nodes) + 1
    world.node(f"gpu{number:02}", gpus=2)
    job = world.submit(instances=2)
    world.settle()
    world.submit(gpu=2)
    Api(world.user)
    return job


def test_the_number_of_queries_does_not_grow_with_the_rows(
    world: World, api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    first = grow(world)
    before = {path: count(api, path.format(first.pk), django_assert_max_num_queries) for path in LISTS + DETAILS}
    grow(world)
    grow(world)
    after = {path: count(api, path.format(first.pk), django_assert_max_num_queries) for path in LISTS + DETAILS}
    assert after == before
    # The token, who may see what, the rows, and what hangs on them; of one virtual cluster also its quota, what it
    # will be, its pinned cells, limits and rights.
    assert after.pop("virtual-clusters/vision") <= 15
    assert max(after.values()) <= 9, after


def count(api: Api, path: str, at_most: DjangoAssertNumQueries) -> int:
    api.get(path)
    with at_most(30) as queries:
        api.get(path)
    return len(queries)

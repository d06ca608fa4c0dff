"""Lists: what filters find, how pages go on while rows come, and that no list asks the database row by row."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from portal.accounts.models import ClusterRole, User
from portal.code.models import CodeFolder
from portal.code.services import code_upload
from portal.hardware.services.silence import lane_pulse
from portal.images.services import image_rule_add
from portal.jobs.models import Job, JobAttempt, Preemption
from portal.notices.services.webhook import webhook_set, webhook_test
from portal.people.services.people import group_create
from portal.storages.services.storages import storage_create
from portal.teams.models import Membership
from portal.teams.services.teams import member_set, vc_create
from portal.templates.models import JobTemplate
from portal.templates.services import template_create
from tests.benchmarks.api_calls import Operation, operations
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import HOST, Api, person
from tests.support.run.archives import packed
from tests.support.services.redis_server import RedisServer

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


def test_of_another_teams_jobs_one_finds_ones_own_alone(world: World, api: Api, bob: User) -> None:
    world.node("gpu01", gpus=1)
    world.submit(name="theirs")
    Api(bob).call("POST", "jobs", job_file(name="own"), kind="text/yaml")
    assert Api(bob).names("jobs?vc=vision", "name") == ["own", "theirs"]
    Membership.objects.filter(user=bob).delete()
    assert Api(bob).names("jobs?vc=vision", "name") == ["own"]
    assert Api(bob).names("jobs?vc=vision&ordering=-name", "name") == ["own"]
    assert Api(bob).names("jobs", "name") == ["own"]
    assert Api(bob).call("GET", "jobs?vc=%00").status_code == 400


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


ORDERS = {"jobs": "name", "nodes": "health", "tokens": "name", "skus": "gpus"}


def test_every_list_has_another_order_both_ways_and_its_pages_hold_each_row_once(world: World, api: Api) -> None:
    for number in range(5):
        world.node(f"gpu{number:02}", gpus=1)
        world.submit(name=f"n{number % 2}")
        Api(world.user)
    for path, column in ORDERS.items():
        rows = pages(api, f"{path}?limit=2&ordering={column}") if path != "skus" else api.get(f"skus?ordering={column}")
        turned = pages(api, f"{path}?limit=2&ordering=-{column}") if path != "skus" else rows[::-1]
        assert [row[column] for row in rows] == sorted(row[column] for row in rows)
        assert rows == turned[::-1], path


def test_by_their_end_come_only_jobs_that_are_over(world: World, api: Api) -> None:
    world.node("gpu01", gpus=1)
    begun = world.now
    for number, minutes in enumerate((3, 1, 2, 2)):
        job = world.submit(name=f"over{number}")
        Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=begun + timedelta(minutes=minutes))
    for _ in range(2):
        world.submit(name="live")
    world.settle()
    newest = pages(api, "jobs?limit=2&ordering=-ended_at")
    assert [row["name"] for row in newest] == ["over0", "over3", "over2", "over1"]
    assert pages(api, "jobs?limit=1&ordering=ended_at") == newest[::-1]
    assert api.get("jobs?ordering=ended_at&state=running")["results"] == []


def pages(api: Api, path: str) -> list[dict[str, Any]]:
    """All rows of a list, page by page to its end; the way back meets the same ones."""
    page = api.get(path)
    seen, last = list(page["results"]), page
    while page["next"]:
        last = page = api.get(path.partition("?")[0] + "?" + urlsplit(page["next"]).query)
        seen += page["results"]
    back = list(last["results"])
    while last["previous"]:
        last = api.get(path.partition("?")[0] + "?" + urlsplit(last["previous"]).query)
        back = [*last["results"], *back]
    assert back == seen
    return seen


WRONG_LISTS = {
    "jobs?ordering=secret": ("ordering", "Known are: id, -id, submitted_at"),
    "jobs?staet=running": ("staet", "There is no such parameter; there are: cursor"),
    "jobs?ordering=": ("ordering", "Known are"),
    "nodes?health=fine": ("health", "fine"),
    "nodes?fields=secret": ("fields", "Known are: name"),
    "skus?usable=many": ("usable", "A whole number"),
    "skus?ordering=-colour": ("ordering", "Known are: sku, -sku"),
    "skus?fields=": ("fields", "Known are"),
    "cell-types?is_node_level=perhaps": ("is_node_level", "Known are: true, false"),
    "virtual-clusters/vision/shares?user=": ("user", "Give a value"),
    "tokens?nonsense=1": ("nonsense", "There is no such parameter"),
    "audit/export?actr=root": ("actr", "There is no such parameter; there are: action, actor"),
    "code?ordering=name": ("ordering", "Known are: id, -id, size"),
    "queue?ordering=place": ("ordering", "Known are: submitted_at"),
}


@pytest.mark.parametrize("query", WRONG_LISTS)
def test_a_list_refuses_what_it_has_not_by_name_with_what_there_is(world: World, api: Api, query: str) -> None:
    answer = api.call("GET", query)
    path, words = WRONG_LISTS[query]
    assert answer.status_code == 400
    (fault,) = json.loads(answer.content)["errors"]
    assert fault["path"] == path
    assert words in fault["message"]


def test_short_lists_have_filters_orders_and_fields_too(world: World, api: Api) -> None:
    world.node("gpu01", gpus=2)
    assert api.get("skus?fields=sku,gpus") == [{"sku": "A100", "gpus": 2}]
    assert api.get("skus?gpus=3") == []
    assert [kind["gpus"] for kind in api.get("cell-types?ordering=-gpus")] == [2, 1]
    assert [kind["name"] for kind in api.get("cell-types?is_node_level=false")] == ["A100"]


def test_a_cursor_of_another_order_is_refused(world: World, api: Api) -> None:
    world.node("gpu01")
    for _ in range(3):
        world.submit()
    by_name = urlsplit(api.get("jobs?limit=1&ordering=name")["next"]).query
    assert api.call("GET", "jobs?" + by_name).status_code == 200
    assert api.call("GET", "jobs?" + by_name.replace("ordering=name", "ordering=id")).status_code == 400
    assert api.call("GET", "jobs?" + by_name.replace("ordering=name", "ordering=submitted_at")).status_code == 400


def grow(world: World) -> Job:
    """One more of everything that lists show; the job of two tasks that runs."""
    number = len(world.nodes) + 1
    world.node(f"gpu{number:02}", gpus=2)
    job = world.submit(instances=2)
    world.settle()
    world.submit(gpu=2)
    Api(world.user)
    vc_create(name=f"team{number}", now=world.now)
    member_set(vc=world.vc, user=person(f"member{number}"), role="member", now=world.now)
    template_create(home=world.vc, name=f"train{number}", description="", file=job_file(), now=world.now, actor="root")
    image_rule_add(vc=world.vc, pattern=f"*{'?' * number}", now=world.now, actor="root")
    storage_create(name=f"data{number}", root=f"/mnt/data{number}", vcs=[world.vc], now=world.now, actor="root")
    webhook_set(url="https://example.org/", kinds=[], secret="whsec_" + "A" * 32, actor="root", now=world.now)
    webhook_test(actor="root", now=world.now)
    code_of(world, number)
    group = group_create(name=f"group{number}", description="d", roles={"vision": "lead"}, now=world.now, actor="root")
    group.user_set.add(person(f"student{number}"))
    first = JobAttempt.objects.order_by("id")[0]
    Preemption.objects.create(
        preemptor=first.job,
        victim=first,
        tasks=1,
        gpus=1,
        on_loan=True,
        at=world.now,
        deadline=world.now + timedelta(seconds=30),
    )
    return job


def code_of(world: World, number: int) -> CodeFolder:
    """One more folder of code that a job names."""
    archive = io.BytesIO(packed({"number": str(number).encode()}))
    code, _ = code_upload(user=world.user, stream=archive, now=world.now)
    world.submit(gpu=2, berth={"code": code.name})
    return code


def addresses(job: Job) -> list[str]:
    """Every address of the API that reads, as the OpenAPI document has them."""
    document = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
    names = {
        "template_id": str(JobTemplate.objects.earliest("id").pk),
        "job_id": str(job.pk),
        "username": "alice",
        "group": "group1",
        "code": CodeFolder.objects.earliest("id").name,
    }

    def filled(one: Operation) -> str:
        name = {"nodes": "gpu01", "storages": "data1"}.get(one.path.split("/")[1], "vision")
        path = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], name), one.path)[1:]
        return "?".join([path, *(f"{name}=x" for name in one.required)])

    return [filled(one) for one in operations(document)]


def test_the_number_of_queries_of_no_address_grows_with_the_rows(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    first = grow(world)
    admin = person("root", ClusterRole.ADMIN)
    reads = addresses(first)
    assert len(reads) >= 22
    api, lead = Api(admin), Api(world.user)

    def counts() -> dict[str, int]:
        for node in world.nodes.values():
            node.report()  # who was silent for long has alerts
        lane_pulse(now=timezone.now())
        return {
            f"{path} {name}": count(one, path, django_assert_max_num_queries)
            for name, one in (("admin", api), ("member", lead))
            for path in reads
        }

    before = counts()
    for _ in range(2):
        grow(world)
    after = counts()
    assert after == before
    # The token, who may see what, the rows, and what hangs on them; alerts look into everything; of the cluster and of
    # virtual clusters also what was decided of them and how full they are, where it cannot be seen that nothing of it
    # has changed.
    whole = ("virtual-clusters ", "virtual-clusters/vision ", "cluster ", "cell-types ", "alerts ")
    most = {path: number for path, number in after.items() if not path.startswith(whole)}
    assert max(most.values()) <= 10, most
    assert max(after.values()) <= 25, after


def test_no_filter_has_all_rows_sorted_to_find_the_first() -> None:
    filtered = [view for view in views_of(get_resolver().url_patterns) if getattr(view, "filterset_class", None)]
    assert len(filtered) >= 10
    assert not [view for view in filtered for one in view.filterset_class.base_filters.values() if one.distinct]


def views_of(patterns: Any) -> Iterator[Any]:
    for one in patterns:
        if hasattr(one, "url_patterns"):
            yield from views_of(one.url_patterns)
        else:
            yield getattr(one.callback, "view_class", None)


def count(api: Api, path: str, at_most: DjangoAssertNumQueries) -> int:
    api.call("GET", path)
    with at_most(30) as queries:
        assert api.call("GET", path).status_code in {200, 403, 404}
    return len(queries)

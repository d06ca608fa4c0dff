"""Tags: given and taken off, found again, several jobs at once; and views of the list that one comes back to."""

from __future__ import annotations

import pytest

from portal.jobs.models import Job
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(world: World) -> World:
    """With one node, since jobs are judged by what there is."""
    world.node("gpu01", gpus=1)
    return world


def test_tags_are_given_once_taken_off_and_listed_with_the_job(world: World) -> None:
    job, api = world.submit(), Api(world.user)
    path = f"jobs/{job.pk}/tags"
    assert api.call("PATCH", path, {"add": ["baseline", "a b", "baseline"]}).json() == {"tags": ["baseline", "a b"]}
    assert api.call("PATCH", path, {"add": ["baseline"], "remove": ["a b", "none"]}).json() == {"tags": ["baseline"]}
    assert api.get(f"jobs/{job.pk}")["tags"] == ["baseline"]
    assert api.names("jobs", "tags") == [["baseline"]]


@pytest.mark.parametrize("tag", ["", "  ", "a,b", "x" * 256])
def test_what_a_filter_could_not_name_is_no_tag(world: World, tag: str) -> None:
    job = world.submit()
    assert Api(world.user).call("PATCH", f"jobs/{job.pk}/tags", {"add": [tag]}).status_code == 400
    assert not job.tags.exists()


def test_a_job_has_fifty_tags_at_most(world: World) -> None:
    job, api = world.submit(), Api(world.user)
    path = f"jobs/{job.pk}/tags"
    assert api.call("PATCH", path, {"add": [f"tag {number}" for number in range(50)]}).status_code == 200
    assert api.call("PATCH", path, {"add": ["one more"]}).json()["detail"] == "A job has 50 tags at most."


def test_jobs_are_found_by_tag_and_by_class(world: World) -> None:
    first, second = world.submit(name="first"), world.submit(name="second")
    api = Api(world.user)
    api.call("PATCH", f"jobs/{first.pk}/tags", {"add": ["baseline"]})
    assert api.names("jobs?tag=baseline", "name") == ["first"]
    assert api.names("jobs?tag=none", "name") == []
    api.call("POST", f"jobs/{second.pk}/priority", {"priority_class": "oppo"})
    assert api.names("jobs?priority_class=oppo", "name") == ["second"]
    assert api.names("jobs?priority_class=oppo&priority_class=test", "name") == ["second", "first"]


def test_the_tags_of_a_job_file_are_the_jobs_first_ones(world: World) -> None:
    job = world.submit(extras={"tags": ["sweep"]})
    assert Api(world.user).get(f"jobs/{job.pk}")["tags"] == ["sweep"]


def test_several_jobs_are_tagged_and_stopped_each_by_itself(world: World) -> None:
    jobs = [world.submit(name=name) for name in ("first", "second")]
    Job.objects.filter(pk=jobs[0].pk).update(state="failed")
    api, ids = Api(world.user), [jobs[0].pk, 4711, jobs[1].pk]
    tagged = api.call("POST", "jobs/bulk", {"jobs": ids, "add_tags": ["old"]}).json()
    assert [(one["label"], one["done"]) for one in tagged] == [
        ("alice/first#1", True), ("", False), ("alice/second#1", True),
    ]  # fmt: skip
    stopped = api.call("POST", "jobs/bulk", {"jobs": ids, "stop": True}).json()
    assert [one["message"] for one in stopped] == [
        "alice/first#1 is over already: it failed.", "There is no job 4711 that you may see.", "",
    ]  # fmt: skip
    assert Job.objects.get(pk=jobs[1].pk).state == "stopped"


def test_who_may_see_a_job_only_is_told_so_row_by_row(world: World) -> None:
    job = world.submit()
    member = Api(cast_of(world.vc, world.user)["member"])
    (told,) = member.call("POST", "jobs/bulk", {"jobs": [job.pk], "stop": True}).json()
    assert (told["done"], told["message"][:26]) == (False, "Only its owner, a lead of ")
    assert Job.objects.get(pk=job.pk).state == "waiting"


@pytest.mark.parametrize("body", [{"jobs": []}, {"jobs": [1]}, {"jobs": [1], "stop": True, "add_tags": ["x"]}])
def test_a_request_for_several_jobs_says_one_thing_to_do(world: World, body: object) -> None:
    assert Api(world.user).call("POST", "jobs/bulk", body).status_code == 400


def test_views_are_ones_own_and_a_name_is_used_once(world: World) -> None:
    api, other = Api(world.user), Api(cast_of(world.vc, world.user)["member"])
    for query in ("mine=on", "mine=on&state=failed&state=stopped"):
        saved = api.call("POST", "saved-views", {"name": "Mine", "query": query}).json()
    assert api.get("saved-views") == [saved]
    assert saved["query"] == "mine=on&state=failed&state=stopped"
    assert other.get("saved-views") == []
    assert other.call("DELETE", f"saved-views/{saved['id']}").status_code == 404
    assert api.call("DELETE", f"saved-views/{saved['id']}").status_code == 204
    assert api.get("saved-views") == []
    assert "it has: " in api.call("POST", "saved-views", {"name": "x", "query": "colour=red"}).text

"""Which images may run: what patterns mean, what is refused at which place, and what is held before it starts."""

from __future__ import annotations

import pytest

from portal.accounts.models import ClusterRole
from portal.images.models import ImageRule
from portal.images.services import image_rule_add
from portal.job_file.images import image_allowed
from portal.jobs.models import Job
from portal.teams.services.teams import vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

MEANT = [
    ("busybox", "busybox:latest", True),
    ("busybox", "docker.io/library/busybox:1.36", True),
    ("docker.io/library/busybox:1.36", "busybox:1.36", True),
    ("docker.io/*", "me/tool", True),
    ("busybox:1.*", "busybox:1.36", True),
    ("busybox:1.*", "busybox", False),
    ("busybox", "busybox2", False),
    ("busybox", "evil.example.org/busybox", False),
    ("nvcr.io/nvidia/*", "nvcr.io/nvidia/pytorch:24.01-py3", True),
    ("nvcr.io/nvidia/*", "nvcr.io.evil.org/nvidia/pytorch", False),
    ("localhost:5000/tool", "localhost:5000/tool:3", True),
    ("me/tool:ok", "me/tool:ok@sha256:beef", False),
    ("me/tool", "me/tool:ok@sha256:beef", True),
    ("me/tool@sha256:beef", "me/tool@sha256:beef", True),
    ("Busybox", "busybox", False),
]


@pytest.mark.parametrize(("pattern", "image", "allowed"), MEANT)
def test_a_pattern_means_an_image_however_its_name_is_written(pattern: str, image: str, allowed: bool) -> None:
    assert image_allowed(image, [pattern]) is allowed


def test_without_patterns_every_image_may_run() -> None:
    assert image_allowed("anything/at:all", [])


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=1)
    return made


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


@pytest.mark.django_db
def test_another_image_is_refused_at_its_place_with_what_may_run(world: World, admin: Api) -> None:
    admin.call("POST", "images", {"pattern": "nvcr.io/nvidia/*"})
    admin.call("POST", "images", {"pattern": "python"})
    alice = Api(world.user)
    answer = alice.call("POST", "jobs", job_file(), kind="text/yaml")
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["path"], fault["code"]) == (400, "prerequisites[0].uri", "image")
    assert fault["message"] == "busybox:latest is not among the images that vision may run: nvcr.io/nvidia/*, python"
    assert fault["line"] > 1
    assert alice.call("POST", "validate", job_file(), kind="text/yaml").json()["valid"] is False
    admin.call("POST", "images", {"pattern": "busybox"})
    assert alice.call("POST", "jobs", job_file(), kind="text/yaml").status_code == 201


@pytest.mark.django_db
def test_a_teams_own_patterns_take_the_place_of_the_clusters(world: World, admin: Api) -> None:
    image_rule_add(vc=None, pattern="python", now=world.now, actor="root")
    image_rule_add(vc=world.vc, pattern="busybox:*", now=world.now, actor="root")
    image_rule_add(vc=vc_create(name="other", now=world.now), pattern="julia", now=world.now, actor="root")
    alice = Api(world.user)
    assert alice.call("POST", "jobs", job_file(), kind="text/yaml").status_code == 201
    assert alice.names("images", "pattern") == ["python", "busybox:*"]
    assert admin.names("images?vc=other", "pattern") == ["julia"]
    rule = ImageRule.objects.get(pattern="julia")
    assert alice.call("DELETE", f"images/{rule.pk}").status_code == 404


@pytest.mark.django_db
def test_a_job_whose_image_may_not_run_any_more_is_paused_when_it_would_start(world: World, admin: Api) -> None:
    running = world.submit(name="runs")
    world.settle()
    job, other = world.submit(name="waits"), world.submit(name="behind")
    rule = image_rule_add(vc=world.vc, pattern="python", now=world.now, actor="root")
    world.nodes["gpu01"].finish()
    world.cycle()
    world.cycle()
    states = dict(Job.objects.values_list("name", "state"))
    assert states == {"runs": "succeeded", "waits": "waiting", "behind": "waiting"}
    told = Api(world.user).get(f"jobs/{job.pk}/events")["results"][-1]
    assert (told["code"], "busybox:latest is not among" in told["message"]) == ("paused", True)
    assert Job.objects.get(pk=job.pk).paused
    assert admin.call("DELETE", f"images/{rule.pk}").status_code == 204
    for one in (job, other):
        Api(world.user).call("POST", f"jobs/{one.pk}/resume")
    world.cycle()
    assert Job.objects.get(pk=job.pk).state == "starting"
    assert running.pk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"pattern": "busybox"}, 409),
        ({"pattern": "busybox", "vc": "vision"}, 201),
        ({"pattern": "busybox", "vc": "vision", "profile": "user"}, 201),
        ({"pattern": "busybox", "profile": "user"}, 409),
        ({"pattern": "python", "profile": "admin"}, 400),
        ({"pattern": "busybox", "vc": "none"}, 400),
        ({"pattern": "a b"}, 400),
        ({"pattern": ""}, 400),
        ({"pattern": "x" * 301}, 400),
        ({"patern": "x"}, 400),
    ],
)
def test_a_pattern_is_there_once_and_looks_like_a_name(world: World, admin: Api, body: object, status: int) -> None:
    image_rule_add(vc=None, pattern="busybox", now=world.now, actor="root")
    answer = admin.call("POST", "images", body)
    assert answer.status_code == status, answer.content

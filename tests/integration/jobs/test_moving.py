"""A waiting job changes its virtual cluster: by REST and on its page, with its file judged anew."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.utils import timezone

from portal.accounts.models import ClusterRole
from portal.common.errors import Conflict
from portal.hardware.models import Node
from portal.job_file.rewrite import VC, with_value
from portal.jobs.models import Job
from portal.jobs.services.lost import node_tasks_lose
from portal.jobs.services.move_to_vc import job_change_vc
from portal.jobs.services.priority import job_change_priority
from portal.teams.models import VirtualCluster
from portal.teams.selectors.shares import vc_shares
from portal.teams.services.teams import member_set, vc_create
from tests.integration.teams.test_quotas import give
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Vision owns one GPU, which a job holds; audio owns the other."""
    made = World()
    made.node("gpu01", gpus=2)
    vc_create(name="audio", now=made.now)
    give(made, "vision", "A100", 1)
    give(made, "audio", "A100", 1)
    made.submit(name="first")
    made.settle()
    return made


def join(world: World, vc: str) -> None:
    member_set(vc=VirtualCluster.objects.get(name=vc), user=world.user, role="member", now=world.now)


def test_a_waiting_job_that_moves_starts_in_its_new_team_with_its_old_time(world: World) -> None:
    join(world, "audio")
    job = world.submit(name="second")
    world.settle()
    answer = Api(world.user).call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert (answer.status_code, answer.json()["vc"]) == (200, "audio")
    world.settle()
    moved = Job.objects.get(pk=job.pk)
    assert (moved.state, moved.vc.name, moved.submitted_at) == ("running", "audio", job.submitted_at)
    assert yaml.safe_load(moved.config)["defaults"]["virtualCluster"] == "audio"
    assert moved.spec["vc"] == "audio"
    assert moved.events.get(code="moved").message == "Moved from vision to audio by alice."


@pytest.mark.django_db(transaction=True)
def test_what_a_lost_attempt_still_holds_counts_for_the_team_into_which_its_job_moves(world: World) -> None:
    join(world, "audio")
    teams = list(VirtualCluster.objects.order_by("name"))

    def held() -> list[int]:
        shares = vc_shares(vcs=teams)
        return [sum(one.guaranteed + one.borrowed for one in shares[vc.pk]) for vc in teams]

    assert held() == [0, 1]
    Node.objects.update(health="lost")
    node_tasks_lose(node=Node.objects.get(), now=timezone.now())
    world.cycle()
    job = Job.objects.get(name="first")
    assert job.state == "waiting"
    assert held() == [0, 1]
    job_change_vc(job=job, vc="audio", actor="alice", now=timezone.now())
    assert held() == [1, 0]


def test_a_job_moves_only_where_its_owner_may_submit_it(world: World) -> None:
    job = world.submit(name="second")
    answer = Api(person("root", ClusterRole.ADMIN)).call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == ["defaults.virtualCluster"]
    assert Job.objects.get(pk=job.pk).vc.name == "vision"


def test_what_does_not_fit_the_other_team_is_told_before_it_moves(world: World) -> None:
    join(world, "audio")
    give(world, "vision", "A100", 1)
    VirtualCluster.objects.filter(name="audio").update(user_gpus=0)
    job = world.submit(name="second")
    answer = Api(world.user).call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert "one user may hold 0 in audio" in answer.json()["detail"]


def test_a_job_that_runs_stays_where_it_is(world: World) -> None:
    join(world, "audio")
    running = Job.objects.get(name="first")
    answer = Api(world.user).call("POST", f"jobs/{running.pk}/move", {"vc": "audio"})
    assert answer.status_code == 409


def test_to_move_where_it_is_changes_nothing(world: World) -> None:
    job = world.submit(name="second")
    assert Api(world.user).call("POST", f"jobs/{job.pk}/move", {"vc": "vision"}).status_code == 200
    assert not job.events.filter(code="moved").exists()


def test_on_its_page_a_waiting_job_is_moved_to_a_team_of_its_owner(world: World) -> None:
    join(world, "audio")
    job = world.submit(name="second")
    browser = Browser(world.user)
    assert browser.get(f"/jobs/{job.pk}").links["Change virtual cluster"] == f"/jobs/{job.pk}/move"
    page = browser.send(f"/jobs/{job.pk}/move", vc="audio")
    assert "waits in audio now" in page.text
    assert Job.objects.get(pk=job.pk).vc.name == "audio"


def test_who_has_one_team_is_told_that_there_is_nowhere_to_go(world: World) -> None:
    job = world.submit(name="second")
    assert "nowhere else to go" in Browser(world.user).get(f"/jobs/{job.pk}/move").text


FILES = {
    "plain": (
        "name: a # kept\ndefaults:\n  virtualCluster: old # why\n",
        'name: a # kept\ndefaults:\n  virtualCluster: "new" # why\n',
    ),
    "no defaults": ("# job\nname: a\n", '# job\n"defaults": {"virtualCluster": "new"}\nname: a\n'),
    "other defaults": ("defaults:\n  x: 1\n", 'defaults:\n  "virtualCluster": "new"\n  x: 1\n'),
    "JSON": ('{"name": "a", "defaults": {}}', '{"name": "a", "defaults": {"virtualCluster": "new"}}'),
    "JSON without defaults": ('{"name": "ü"}', '{"defaults": {"virtualCluster": "new"}, "name": "ü"}'),
    "an anchor that is used twice": (
        "name: &n old\ndefaults:\n  virtualCluster: *n\n", "name: old\ndefaults:\n  virtualCluster: new\n",
    ),
    "tabs": (
        '{\n\t"name":\t"a",\n\t"defaults":\t{"virtualCluster": "old"}\n}',
        '{\n\t"name":\t"a",\n\t"defaults":\t{"virtualCluster": "new"}\n}',
    ),
    "tabs before comments": (
        "name:\ta\t# kept\ndefaults:\n  virtualCluster:\told\n",
        'name:\ta\t# kept\ndefaults:\n  virtualCluster:\t"new"\n',
    ),
    "nothing under defaults": ("defaults:\nname: a\n", "defaults:\n  virtualCluster: new\nname: a\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_gets_another_virtual_cluster_and_keeps_the_rest_as_typed(case: str) -> None:
    before, after = FILES[case]
    assert with_value(before, VC, "new") == after


SECRET: dict[str, Any] = {
    "secrets": {"token": "s3cret"},
    "commands": ["echo <% $secrets.token %>"],
    "prerequisites": [
        {
            "name": "image", "type": "dockerimage", "uri": "registry.lab:5000/team/torch:2",
            "auth": {"username": "me", "password": "in clear", "registryuri": "registry.lab:5000"},
        },
    ],
}  # fmt: skip


def test_a_job_with_secrets_changes_its_team_and_its_class_and_keeps_them(world: World) -> None:
    join(world, "audio")
    job = world.submit(name="second", **SECRET)
    sealed = job.secrets_sealed
    owner = Api(world.user)
    assert owner.call("POST", f"jobs/{job.pk}/priority", {"priority_class": "oppo"}).status_code == 200
    assert owner.call("POST", f"jobs/{job.pk}/priority", {"priority_class": "test"}).status_code == 200
    answer = owner.call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert (answer.status_code, answer.json()["vc"]) == (200, "audio")
    moved = Job.objects.get(pk=job.pk)
    assert moved.secrets_sealed == sealed
    assert "s3cret" not in moved.config
    assert "in clear" not in moved.config
    world.settle()
    (order,) = [one for one in world.nodes["gpu01"].desired().orders if "second" in world.nodes["gpu01"].spec(one).job]
    spec = world.nodes["gpu01"].spec(order)
    assert "echo s3cret" in spec.script
    assert spec.auth is not None
    assert spec.auth.password == "in clear"


def test_a_job_whose_secrets_cannot_be_opened_is_told_what_is_missing(world: World) -> None:
    join(world, "audio")
    job = world.submit(name="second", **SECRET)
    Job.objects.filter(pk=job.pk).update(secrets_sealed="AAAA")
    answer = Api(world.user).call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert answer.status_code == 400
    assert {fault["code"] for fault in answer.json()["errors"]} == {"masked"}


def test_of_two_changes_made_from_one_reading_only_the_first_is_done(world: World) -> None:
    """Else a class that one team gives would be taken into another that does not."""
    join(world, "audio")
    admin = person("root", ClusterRole.ADMIN)
    for number in range(2):
        job = world.submit(name=f"waits{number}")
        read = Job.objects.select_related("user", "vc").get(pk=job.pk)
        changes = [
            lambda one: job_change_vc(job=one, vc="audio", actor="alice", now=world.now),
            lambda one: job_change_priority(job=one, to="prod", actor=admin, now=world.now),
        ]
        first, second = changes if number else reversed(changes)
        first(job)
        after = Job.objects.values("vc__name", "priority", "spec", "config").get(pk=job.pk)
        with pytest.raises(Conflict):
            second(read)
        assert Job.objects.values("vc__name", "priority", "spec", "config").get(pk=job.pk) == after

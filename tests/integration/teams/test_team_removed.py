"""A virtual cluster is made, and removed when no job of it is left to end; its past stays."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from portal.accounts.models import ClusterRole, User
from portal.idle.models import IdlePolicy
from portal.idle.services.policy import idle_exemption_add
from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job
from portal.jobs.services.admission import job_check
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import job_submit
from portal.teams.models import Membership, QuotaChange, QuotaLine, VirtualCluster
from portal.teams.services.teams import vc_create, vc_remove
from tests.support.cluster.world import job_file
from tests.support.people.cast import Api, person

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(db: None) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def test_one_with_jobs_that_wait_or_run_stays_and_says_which(world: World, root: Api) -> None:
    world.node("gpu01", gpus=1)
    running, waiting = world.submit(), world.submit()
    world.settle()
    answer = root.call("DELETE", "virtual-clusters/vision")
    assert answer.status_code == 409
    assert "it has jobs that are not over (1 running, 1 waiting)" in answer.json()["detail"]
    assert (QuotaLine.objects.count(), Membership.objects.count()) == (1, 1)
    for job in (running, waiting):
        job_stop(job=Job.objects.get(pk=job.pk), actor=world.user, now=timezone.now())
    world.settle()
    assert root.call("DELETE", "virtual-clusters/vision").status_code == 204


def test_what_is_over_keeps_its_name_and_the_cluster_goes_on_without_it(world: World, root: Api) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    job_stop(job=Job.objects.get(pk=job.pk), actor=world.user, now=timezone.now())
    world.settle()
    root.call("DELETE", "virtual-clusters/vision")
    assert root.get(f"jobs/{job.pk}")["vc"] == "vision"
    assert root.names("virtual-clusters", "name") == []
    assert root.call("GET", "virtual-clusters/vision").status_code == 404
    assert root.call("DELETE", "virtual-clusters/vision").status_code == 404
    world.settle()
    with pytest.raises(SpecInvalid, match="vision"):
        world.submit()


def test_its_name_may_be_given_again_to_one_that_has_nothing_of_it(world: World, root: Api) -> None:
    world.node("gpu01", gpus=1)
    root.call("DELETE", "virtual-clusters/vision")
    answer = root.call("POST", "virtual-clusters", {"name": "vision", "description": "the second"})
    assert (answer.status_code, answer.json()["gpus"]) == (201, [])
    assert root.call("POST", "virtual-clusters", {"name": "vision"}).status_code == 409
    assert root.get("virtual-clusters/vision/members") == []
    assert VirtualCluster._base_manager.filter(name="vision").count() == 2


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "-a", 7, None])
def test_what_is_no_name_is_refused(root: Api, name: object) -> None:
    answer = root.call("POST", "virtual-clusters", {"name": name})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "name")


def test_a_job_that_was_judged_while_its_team_was_removed_is_not_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal comes between the check of the file and its rows, as another process may bring it."""
    world.node("gpu01", gpus=1)

    def judged_then_removed(*, user: User, text: str | bytes) -> JobSpec:
        spec = job_check(user=user, text=text)
        vc_remove(vc=world.vc, now=timezone.now(), actor="root")
        return spec

    monkeypatch.setattr("portal.jobs.services.submit.job_check", judged_then_removed)
    with pytest.raises(SpecInvalid, match="there is no virtual cluster vision any more"):
        job_submit(user=world.user, text=job_file(), now=timezone.now())
    assert Job.objects.count() == 0


def test_its_idle_policy_and_what_was_excepted_from_it_go_with_it(world: World, root: Api) -> None:
    idle_exemption_add(
        vc=world.vc, user=None, job=None, pattern="n*", reason="r", until=None, now=world.now, actor="root"
    )
    IdlePolicy.objects.create(
        vc=world.vc, action="stop", percent=5, minutes=60, after_minutes=60, extensions=2, extension_minutes=60
    )
    assert root.call("DELETE", "virtual-clusters/vision").status_code == 204
    assert root.get("idle-exemptions")["results"] == []
    assert not IdlePolicy.objects.exists()


def test_planned_changes_of_its_quota_go_with_it_and_those_of_others_stay(world: World, root: Api) -> None:
    world.node("gpu01", gpus=4)
    vc_create(name="audio", now=world.now)
    for day, names in enumerate((["vision"], ["vision", "audio"]), 1):
        lines = [{"vc": name, "cell_type": "A100", "count": 0} for name in names]
        starts_at, ends_at = ((world.now + timedelta(days=day, hours=hour)).isoformat() for hour in (0, 1))
        change = {"lines": lines, "starts_at": starts_at, "ends_at": ends_at}
        assert root.call("POST", "quota-changes", change).status_code == 201
    assert root.call("DELETE", "virtual-clusters/vision").status_code == 204
    assert [[line["vc"] for line in one["lines"]] for one in root.get("quota-changes")] == [["audio"]]
    assert QuotaChange.objects.filter(over_at__isnull=False, withdrawn=True).count() == 1

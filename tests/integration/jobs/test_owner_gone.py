"""A job that waits starts nothing once its owner may not run jobs in its team: until a lead keeps it, or the owner is
back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Audited, AuditEntry, ClusterRole, User
from portal.jobs.models import Job
from portal.jobs.states import OWNER_GONE
from portal.notices.models import Notice
from portal.notices.services.gather import notices_gather
from portal.teams.models import Membership
from portal.teams.selectors.owners import leads_of, owners_gone
from portal.teams.services.teams import member_set, membership_end, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Two GPUs, of which a job of alice holds one, and bob, who leads her team."""
    made = World()
    made.node("gpu01", gpus=2)
    made.submit(name="runs")
    made.settle()
    member_set(vc=made.vc, user=person("bob"), role="lead", now=made.now)
    return made


@pytest.fixture
def bob(world: World) -> Api:
    return Api(User.objects.get(username="bob"))


def leave(world: World) -> None:
    membership = Membership.objects.get(vc=world.vc, user=world.user)
    membership_end(vc=world.vc, membership_id=membership.pk, now=world.now, actor="bob")


def come_back(world: World) -> None:
    member_set(vc=world.vc, user=world.user, role="member", now=world.now)


def by_group(world: World) -> Group:
    """Alice is in the team by a group alone."""
    group = Group.objects.create(name="students")
    world.user.groups.add(group)
    Membership.objects.filter(user=world.user).update(user=None, group=group)
    return group


def left_the_group(world: World) -> None:
    group = by_group(world)
    world.user.groups.remove(group)


def group_left_the_team(world: World) -> None:
    Membership.objects.filter(group=by_group(world)).delete()


def group_is_gone(world: World) -> None:
    by_group(world).delete()


def disabled(world: World) -> None:
    User.objects.filter(pk=world.user.pk).update(is_active=False)


def no_administrator_any_more(world: World) -> None:
    User.objects.filter(pk=world.user.pk).update(role=ClusterRole.ADMIN)
    leave(world)
    assert not gone(world)
    User.objects.filter(pk=world.user.pk).update(role=ClusterRole.AUDITOR)


def moved_to_another_team(world: World) -> None:
    member_set(vc=vc_create(name="audio", now=world.now), user=world.user, role="lead", now=world.now)
    leave(world)


def gone(world: World) -> bool:
    return bool(owners_gone(owners=[(world.vc.pk, world.user.pk)]))


def state(job: Job) -> tuple[str, str]:
    row = Job.objects.get(pk=job.pk)
    return row.state, row.waiting_code


@pytest.mark.parametrize(
    "path",
    [
        *(leave, left_the_group, group_left_the_team, group_is_gone, disabled, no_administrator_any_more),
        moved_to_another_team,
    ],
)
def test_however_the_owner_went_what_waits_is_held_and_what_runs_goes_on(
    world: World, path: Callable[[World], None]
) -> None:
    job = world.submit(name="waits")
    path(world)
    world.settle()
    assert state(job) == ("waiting", OWNER_GONE)
    assert Job.objects.get(name="runs").state == "running"
    assert Job.objects.get(pk=job.pk).waiting_message == (
        "its owner alice may not run jobs in vision any more; a lead of vision or an administrator lets it run for the "
        "team, or stops it"
    )
    assert [one.message for one in job.events.filter(code="owner_gone")] == [
        f"Held: {Job.objects.get(pk=job.pk).waiting_message}."
    ]


def test_who_is_in_a_team_by_a_group_or_administers_the_cluster_is_not_gone(world: World) -> None:
    by_group(world)
    assert not gone(world)
    Membership.objects.filter(group__name="students").delete()
    assert gone(world)
    User.objects.filter(pk=world.user.pk).update(role=ClusterRole.ADMIN)
    assert not gone(world)


def test_who_comes_back_lets_it_go_on(world: World) -> None:
    job = world.submit(name="waits")
    leave(world)
    world.settle()
    assert state(job) == ("waiting", OWNER_GONE)
    world.cycle(now=timezone.now() + timedelta(minutes=2))
    assert job.events.filter(code="owner_gone").count() == 1, "told once, however long it is held"
    come_back(world)
    world.settle()
    assert state(job) == ("running", "")


def test_a_lead_lets_it_run_for_the_team(world: World, bob: Api) -> None:
    job = world.submit(name="waits")
    leave(world)
    world.settle()
    assert Api(world.user).call("POST", f"jobs/{job.pk}/resume").status_code == 200
    world.settle()
    assert state(job) == ("waiting", OWNER_GONE), "its owner has not that word"
    assert bob.call("POST", f"jobs/{job.pk}/resume").status_code == 200
    world.settle()
    assert state(job) == ("running", "")
    assert job.events.get(code="kept").message == "It runs for vision, by bob."
    assert AuditEntry.objects.get(action=Audited.JOB_RESUME).actor == "bob"


def test_a_leads_resume_while_its_owner_is_there_is_no_word_for_later(world: World, bob: Api) -> None:
    job = world.submit(name="waits")
    assert bob.call("POST", f"jobs/{job.pk}/pause").status_code == 200
    assert bob.call("POST", f"jobs/{job.pk}/resume").status_code == 200
    leave(world)
    world.settle()
    assert state(job) == ("waiting", OWNER_GONE)


def test_its_lead_may_stop_it(world: World, bob: Api) -> None:
    job = world.submit(name="waits")
    leave(world)
    world.settle()
    assert bob.call("POST", f"jobs/{job.pk}/stop").status_code == 200
    assert state(job)[0] == "stopped"


def test_a_job_that_ran_is_held_when_it_waits_again(world: World) -> None:
    job = world.submit(name="again", jobRetryCount=1)
    world.settle()
    assert state(job)[0] == "running"
    leave(world)
    world.nodes["gpu01"].finish(code=1)
    world.settle()
    assert state(job) == ("waiting", OWNER_GONE)


def test_on_its_page_a_lead_lets_it_run_and_the_owner_may_not(world: World) -> None:
    job = world.submit(name="waits")
    leave(world)
    world.settle()
    words = "Let it run for the team"
    assert words not in Browser(world.user).get(f"/jobs/{job.pk}").text
    lead = Browser(User.objects.get(username="bob"))
    page = lead.get(f"/jobs/{job.pk}")
    assert words in page.text
    assert "estimate" not in page.text, "nothing is to be expected of a job that is held"
    page = lead.send(f"/jobs/{job.pk}/resume", form=f"/jobs/{job.pk}")
    assert words not in page.text
    world.settle()
    assert state(job)[0] == "running"


def test_leads_read_of_it_among_the_alerts_and_are_told_by_mail(world: World, bob: Api, settings: Any) -> None:
    settings.EMAIL_ON = True
    notices_gather(now=world.now)
    job = world.submit(name="waits")
    leave(world)
    world.settle()
    (alert,) = [one for one in bob.get("alerts") if one["code"] == "owner_gone"]
    assert alert["message"] == "1 job of alice, who may not run jobs in vision any more, is held."
    notices_gather(now=timezone.now())
    assert list(Notice.objects.values_list("user__username", "job", "kind")) == [("bob", job.pk, "warned")]
    bob.call("POST", f"jobs/{job.pk}/resume")
    assert [one for one in bob.get("alerts") if one["code"] == "owner_gone"] == []


def test_leads_are_those_by_groups_too_and_none_who_is_disabled(world: World) -> None:
    group = Group.objects.create(name="heads")
    carol, dave = person("carol"), person("dave")
    carol.groups.add(group)
    Membership.objects.create(vc=world.vc, group=group, role="lead")
    member_set(vc=world.vc, user=dave, role="lead", now=world.now)
    User.objects.filter(pk=dave.pk).update(is_active=False)
    assert leads_of(vcs=[world.vc.pk]) == {world.vc.pk: {User.objects.get(username="bob").pk, carol.pk}}


def test_more_owners_take_no_more_queries(world: World) -> None:
    def asked(owners: list[tuple[int, int]]) -> int:
        with CaptureQueriesContext(connection) as queries:
            owners_gone(owners=owners)
        return len(queries)

    other = vc_create(name="audio", now=world.now)
    few, many = [(world.vc.pk, world.user.pk)], [(vc, user) for vc in (world.vc.pk, other.pk) for user in range(9)]
    assert (asked([]), asked(few), asked(many)) == (0, 2, 2)

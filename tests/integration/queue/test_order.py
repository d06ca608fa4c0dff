"""A waiting job gets another place in the queue: by a lead among the team's, by its owner among their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from portal.queue.outlook import queue_read
from portal.scheduler.snapshot import SNAPSHOTS
from portal.teams.services.teams import member_set
from scheduling import Engine
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db


class Team(World):
    """One GPU, which a job of Alice's holds: she has used more than Bob, who is in the team as well; Lea leads it."""

    def __init__(self) -> None:
        super().__init__()
        self.node("gpu01", gpus=1)
        self.submit(name="holder")
        self.settle()
        self.bob, self.lea = person("bob"), person("lea")
        member_set(vc=self.vc, user=self.bob, role="member", now=self.now)
        member_set(vc=self.vc, user=self.lea, role="lead", now=self.now)
        self.alices, self.leads, self.bobs = Api(self.user), Api(self.lea), Api(self.bob)

    def of_bob(self, name: str) -> Job:
        return job_submit(user=self.bob, text=job_file(name=name), now=timezone.now())

    def order(self) -> list[str]:
        """As the scheduler takes them."""
        self.cycle()
        names = dict(Job.objects.values_list("pk", "name"))
        return [names[job] for job in queue_read()]

    def over(self) -> str:
        """What runs has ended; what started then."""
        self.nodes["gpu01"].finish()
        self.settle()
        return Job.objects.get(state__in=["starting", "running"]).name


@pytest.fixture
def team() -> Team:
    return Team()


def place(api: Api, job: Job, **where: Any) -> tuple[int, str]:
    answer = api.call("POST", f"jobs/{job.pk}/place", where)
    return answer.status_code, answer.json().get("detail", "")


def test_whom_a_lead_moves_to_the_front_starts_first_though_its_user_has_used_more(team: Team) -> None:
    mine, _ = team.submit(name="mine"), team.of_bob("bobs")
    assert team.order() == ["bobs", "mine"]
    assert place(team.leads, mine, to="front") == (200, "")
    assert team.order() == ["mine", "bobs"]
    assert team.alices.get(f"jobs/{mine.pk}")["waiting"]["placed_by"] == "lead"
    assert [(one.message, one.actor) for one in mine.events.filter(code="ordered")] == [
        ("Moved to the front of Test jobs of vision by lea.", "lea")
    ]
    assert team.over() == "mine"


def test_what_stood_before_a_moved_job_stays_before_it(team: Team) -> None:
    jobs = {name: team.of_bob(name) for name in ("one", "two", "three")} | {"mine": team.submit(name="mine")}
    assert team.order() == ["one", "two", "three", "mine"]
    place(team.leads, jobs["mine"], after=jobs["one"].pk)
    assert team.order() == ["one", "mine", "two", "three"]
    place(team.leads, jobs["one"], after=jobs["two"].pk)
    assert team.order() == ["mine", "two", "one", "three"]
    place(team.leads, jobs["three"], before=jobs["mine"].pk)
    assert team.order() == ["three", "mine", "two", "one"]


def test_two_moves_before_the_next_plan_both_count_and_are_shown_at_once(team: Team) -> None:
    jobs = [team.of_bob(name) for name in ("one", "two", "three")]
    team.order()
    for job in jobs[1:]:
        place(team.leads, job, to="front")
    shown = [row["label"] for row in team.bobs.get("queue")["results"]]
    assert shown == ["bob/three#1", "bob/two#1", "bob/one#1"]
    assert team.order() == ["three", "two", "one"]


def test_what_comes_later_stands_behind_those_that_a_lead_moved(team: Team) -> None:
    mine = team.submit(name="mine")
    team.of_bob("first")
    place(team.leads, mine, to="front")
    team.of_bob("later")
    assert team.order() == ["mine", "first", "later"]
    place(team.leads, mine, to="own")
    assert Job.objects.filter(led=True).count() == Job.objects.filter(queue_ms__isnull=False).count() == 0


def test_a_higher_class_still_comes_first(team: Team) -> None:
    mine = team.submit(name="mine")
    place(team.leads, mine, to="front")
    team.vc.member_class = "prod"
    team.vc.save()
    job_submit(
        user=team.bob, now=timezone.now(),
        text=job_file(name="urgent", gpu=1, extras={"hivedScheduler": {"jobPriorityClass": "prod"}}),
    )  # fmt: skip
    team.submit(name="second")
    team.settle()  # the urgent one takes the holder's GPU, which waits again
    assert team.order() == ["mine", "holder", "second"]


def test_an_owner_moves_among_their_own_and_nobody_else_loses_a_place(team: Team) -> None:
    first, bobs, second, third = (
        team.submit(name="first"), team.of_bob("bobs"), team.submit(name="second"), team.submit(name="third"),
    )  # fmt: skip
    assert place(team.alices, third, before=first.pk) == (200, "")
    assert team.order() == ["bobs", "third", "first", "second"]
    keys = Job.objects.filter(user=team.user, state="waiting").values_list("queue_ms", flat=True)
    assert sorted(key or 0 for key in keys) == sorted(
        int(one.submitted_at.timestamp() * 1000) for one in (first, second, third)
    )
    status, told = place(team.alices, third, before=bobs.pk)
    assert (status, "by its owner among the owner's own" in told) == (409, True)
    assert place(team.alices, second, to="own") == (200, "")
    assert team.order() == ["bobs", "first", "second", "third"]


def test_cells_kept_for_a_job_do_not_keep_its_owner_from_moving_another_before_it(team: Team) -> None:
    first, second = team.submit(name="first"), team.submit(name="second")
    assert team.order() == ["first", "second"]
    place(team.alices, second, before=first.pk)
    assert team.order() == ["second", "first"]
    assert team.over() == "second"


def test_jobs_of_one_moment_can_be_moved_too(team: Team) -> None:
    jobs = [team.submit(name=name) for name in ("one", "two", "three")]
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(submitted_at=jobs[0].submitted_at)
    place(team.alices, jobs[2], to="front")
    assert team.order() == ["three", "one", "two"]
    place(team.alices, jobs[0], after=jobs[1].pk)
    assert team.order() == ["three", "two", "one"]


def test_an_owner_leaves_alone_what_a_lead_has_moved(team: Team) -> None:
    first, second = team.submit(name="first"), team.submit(name="second")
    place(team.leads, second, to="front")
    status, told = place(team.alices, second, after=first.pk)
    assert (status, told) == (409, "A lead has given alice/second#1 its place; ask a lead of vision to change it.")
    assert place(team.alices, first, before=second.pk)[0] == 409


def test_what_is_shown_of_its_submission_and_waiting_stays_true(team: Team) -> None:
    mine = team.submit(name="mine")
    before = team.alices.get(f"jobs/{mine.pk}")["submitted_at"]
    place(team.leads, mine, to="front")
    assert team.alices.get(f"jobs/{mine.pk}")["submitted_at"] == before
    assert Job.objects.get(pk=mine.pk).submitted_at == mine.submitted_at


def test_a_preempted_job_keeps_the_place_that_a_lead_gave_it(team: Team) -> None:
    mine, other = team.submit(name="mine"), team.of_bob("other")
    place(team.leads, mine, to="front")
    assert team.over() == "mine"
    team.vc.member_class = "prod"
    team.vc.save()
    job_submit(
        user=team.bob, now=timezone.now(),
        text=job_file(name="urgent", extras={"hivedScheduler": {"jobPriorityClass": "prod"}}),
    )  # fmt: skip
    team.settle()
    assert team.order() == ["mine", other.name]


def test_a_place_far_behind_is_refused_and_one_that_left_the_queue_too(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.queue.services.order.DEEPEST", 2)
    jobs = [team.of_bob(name) for name in ("one", "two", "three")]
    assert place(team.leads, jobs[0], after=jobs[2].pk) == (
        409,
        "Only the first 2 places of a class are given by hand.",
    )
    holder = Job.objects.get(name="holder")
    assert place(team.leads, holder, to="front")[0] == 409
    assert place(team.leads, jobs[0], after=holder.pk)[0] == 409
    assert place(team.leads, jobs[0], after=jobs[0].pk)[0] == 200


def test_who_changes_class_or_team_stands_by_submission_again(team: Team) -> None:
    mine = team.submit(name="mine")
    place(team.leads, mine, to="front")
    team.alices.call("POST", f"jobs/{mine.pk}/priority", {"priority_class": "oppo"})
    mine.refresh_from_db()
    assert (mine.led, mine.queue_ms) == (False, None)


def test_a_new_engine_and_one_that_followed_decide_alike(team: Team) -> None:
    jobs = [team.of_bob(name) for name in ("one", "two", "three")]
    team.order()
    place(team.leads, jobs[2], to="front")
    now = timezone.now() + timedelta(seconds=1)
    followed = team.order()
    fresh = Engine.restore(SNAPSHOTS.load(now=now).snapshot).plan(int(now.timestamp() * 1000))
    assert [Job.objects.get(pk=int(wait.job.id)).name for wait in fresh.waits] == followed

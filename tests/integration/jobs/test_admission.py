"""What a job may ask for by right: classes, caps, times, never to be preempted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from portal.accounts.models import ClusterRole, User
from portal.common.errors import Invalid
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job
from portal.jobs.services.admission import job_check
from portal.jobs.services.stop import job_stop
from portal.scheduler.snapshot import SNAPSHOTS
from portal.teams.models import FirmRight
from portal.teams.services.rules import firm_right_set, vc_set_rules
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db

CLASS = "extras.hivedScheduler.jobPriorityClass"


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=8)
    return made


def of_class(name: str, **changes: Any) -> str:
    return job_file(extras={"hivedScheduler": {"jobPriorityClass": name}}, **changes)


def refused(world: World, text: str, user: User | None = None) -> dict[str, str]:
    with pytest.raises(SpecInvalid) as error:
        job_check(user=user or world.user, text=text)
    return {problem.path: problem.message for problem in error.value.problems}


@pytest.mark.parametrize(
    ("role", "allowed", "above"), [("member", "prod", "crit"), ("lead", "crit", None)], ids=["member", "lead"]
)
def test_the_highest_class_goes_by_the_role(world: World, role: str, allowed: str, above: str | None) -> None:
    member_set(vc=world.vc, user=world.user, role=role, now=world.now)
    job_check(user=world.user, text=of_class(allowed))
    if above:
        assert refused(world, of_class(above)) == {
            CLASS: "Critical (crit) is above Production (prod), the highest priority class that you may use in vision"
        }


def test_a_team_sets_its_own_classes_and_administrators_count_as_leads(world: World) -> None:
    vc_set_rules(vc=world.vc, changes={"member_class": "oppo", "lead_class": "prod"}, now=world.now, actor="root")
    assert CLASS in refused(world, of_class("test"))
    job_check(user=world.user, text=of_class("oppo"))
    root = person("root", ClusterRole.ADMIN)
    job_check(user=root, text=of_class("prod"))
    with pytest.raises(SpecInvalid, match="above Production"):
        job_check(user=root, text=of_class("crit"))


CAPS: dict[str, tuple[dict[str, Any], str, int, str]] = {
    "so many GPUs": ({"user_gpus": 3}, "test", 4, "asks for 4 GPUs at once; one user may hold 3 in vision"),
    "a part of the quota": (
        {"user_factor": 0.5}, "test", 5,
        "asks for 5 A100 at once; one user may hold 4 in vision, 0.5 of its quota",
    ),
    "a class": (
        {"class_gpus": 2}, "prod", 3,
        "asks for 3 GPUs at once; jobs of class Production (prod) and above may hold 2 in vision together",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CAPS)
def test_a_job_that_no_waiting_brings_below_a_cap_is_refused(world: World, case: str) -> None:
    rules, name, gpus, sentence = CAPS[case]
    vc_set_rules(vc=world.vc, changes=rules, now=world.now, actor="root")
    assert list(refused(world, of_class(name, gpu=gpus)).values()) == [sentence]
    job_check(user=world.user, text=of_class(name, gpu=gpus - 1))
    one_by_one = {"hivedScheduler": {"jobPriorityClass": name}, "gangAllocation": False}
    job_check(user=world.user, text=job_file(gpu=1, instances=gpus, extras=one_by_one))
    job_check(user=world.user, text=of_class("oppo", gpu=gpus))


@pytest.mark.parametrize(("key", "most"), [("gracePeriod", 600), ("minRunTime", 3600)])
def test_times_have_an_administrators_cap(world: World, key: str, most: int) -> None:
    job_check(user=world.user, text=job_file(berth={key: most}))
    assert refused(world, job_file(berth={key: most + 1})) == {
        f"extras.berth.{key}": f"must be at most {most} s here, not {most + 1} s"
    }


def test_a_job_follows_one_that_its_user_may_see(world: World) -> None:
    world.submit(name="first")
    following = job_file(gpu=0, berth={"after": ["alice/first"]})
    job_check(user=world.user, text=following)
    stranger = person("mallory")
    member_set(vc=vc_create(name="speech", now=world.now), user=stranger, role="member", now=world.now)
    assert refused(world, following.replace("vision", "speech"), stranger) == {
        "extras.berth.after[0]": "there is no job alice/first that you may see"
    }


def test_a_pinned_cell_is_one_of_the_teams_own(world: World) -> None:
    extras = {"hivedScheduler": {"taskRoles": {"worker": {"pinnedCellId": "corner"}}}}
    assert refused(world, job_file(extras=extras)) == {
        "extras.hivedScheduler.taskRoles.worker.pinnedCellId": "vision has no reserved servers corner; it has: none"
    }


# ---------------------------------------------------------------- never to be preempted

FIRM = "extras.berth.preemptible"
NEVER = {"preemptible": False}


def right(world: World, gpus: int, days: int = 7) -> None:
    last = (world.now + timedelta(days=days)).date()
    firm_right_set(vc=world.vc, username="alice", gpus=gpus, last_day=last, now=world.now, actor="root")


def firm_jobs(world: World, days: int = 0) -> list[str]:
    snapshot = SNAPSHOTS.load(now=world.now + timedelta(days=days)).snapshot
    jobs = [*snapshot.waiting, *(running.job for running in snapshot.running)]
    return sorted(Job.objects.get(pk=int(job.id)).name for job in jobs if not job.preemptible)


def test_never_to_be_preempted_is_a_right_with_a_number_of_gpus(world: World) -> None:
    assert "ask an administrator" in refused(world, job_file(berth=NEVER))[FIRM]
    right(world, 3)
    world.submit(gpu=2, berth=NEVER)
    assert "your jobs there ask for 2, this one for 2" in refused(world, job_file(gpu=2, berth=NEVER))[FIRM]
    world.submit(name="one", gpu=1, berth=NEVER)
    assert firm_jobs(world) == ["one", "train"]
    job_stop(job=Job.objects.get(name="train"), actor=world.user, now=world.now)
    world.submit(name="next", gpu=2, berth=NEVER)
    assert firm_jobs(world) == ["next", "one"]


def test_after_its_last_day_a_right_protects_nothing_more(world: World) -> None:
    right(world, 3)
    world.submit(gpu=2, berth=NEVER)
    assert (firm_jobs(world, days=7), firm_jobs(world, days=8)) == (["train"], [])


def test_a_smaller_right_protects_the_oldest_jobs(world: World) -> None:
    right(world, 4)
    for name in ("first", "second"):
        world.submit(name=name, gpu=2, berth=NEVER)
    right(world, 3)
    assert firm_jobs(world) == ["first"]


def test_such_a_job_holds_nothing_on_loan(world: World) -> None:
    right(world, 4)
    assert FIRM in refused(world, job_file(berth=NEVER | {"borrow": "auto"}))


def test_rights_are_given_inside_the_quota_only(world: World) -> None:
    right(world, 6)
    bob = person("bob")
    with pytest.raises(Invalid) as error:
        firm_right_set(vc=world.vc, username="bob", gpus=3, last_day=world.now.date(), now=world.now, actor="root")
    assert [fault.message for fault in error.value.faults] == [
        "3 GPUs asked for; of 8 of vision's quota 6 are promised to others"
    ]
    assert not FirmRight.objects.filter(user=bob).exists()

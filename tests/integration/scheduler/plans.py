"""Plans made by hand, carried out as the scheduler's own: what `apply` does is tried without what the engine wants."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

import scheduling
from portal.accounts.models import User
from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from portal.jobs.states import JobState
from portal.scheduler.apply import Applied, apply
from portal.scheduler.ports import PortShortages
from portal.scheduler.snapshot import SNAPSHOTS, Loaded
from scheduling import LeafUse, Plan, Preempt, Standing, Start, TaskPlacement, TaskRef, Victim
from tests.support.cluster.world import World, job_file

TEAMS = {"alice": "vision", "bob": "vision", "carol": "language"}
PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}

Places = Mapping[int, str]
"""Task index -> its leaves, such as ``gpu01/0 gpu01/1``."""


def engine_job(loaded: Loaded, job: Job) -> scheduling.Job:
    """The job as the engine knows it, waiting or running."""
    every = [*loaded.snapshot.waiting, *(running.job for running in loaded.snapshot.running)]
    return next(one for one in every if one.id == str(job.pk))


def placements(job: Job, places: Places, *, borrowed: bool = False) -> tuple[TaskPlacement, ...]:
    """Tasks of role ``worker``; the virtual cell of a leaf is named after its VC and the leaf."""
    return tuple(_placement(job, index, leaves.split(), borrowed) for index, leaves in places.items())


def _placement(job: Job, index: int, leaves: list[str], borrowed: bool) -> TaskPlacement:
    uses = tuple(_use(job, leaf, borrowed) for leaf in leaves)
    return TaskPlacement(TaskRef("worker", index), leaves[0].split("/")[0], uses, 1000, 1024)


def _use(job: Job, leaf: str, borrowed: bool) -> LeafUse:
    if borrowed:
        return LeafUse(leaf, None, Standing.BORROWED)
    return LeafUse(leaf, f"{job.vc.name}/{leaf}", Standing.GUARANTEED)


def start(loaded: Loaded, job: Job, places: Places, *, borrowed: bool = False) -> Start:
    return Start(engine_job(loaded, job), placements(job, places, borrowed=borrowed), 0)


def preempt(
    loaded: Loaded,
    job: Job,
    places: Places,
    victims: Mapping[Job, tuple[int, ...]],
    *,
    grace_s: int = 30,
    releases: tuple[str, ...] = (),
) -> Preempt:
    """`victims`: job -> indices of its tasks that must end."""
    taken = tuple(
        Victim(str(victim.pk), tuple(TaskRef("worker", index) for index in tasks), grace_s * 1000)
        for victim, tasks in victims.items()
    )
    return Preempt(engine_job(loaded, job), placements(job, places), taken, 0, releases=releases)


def read(now: datetime | None = None) -> Loaded:
    return SNAPSHOTS.load(now=now or timezone.now())


def carry_out(loaded: Loaded, *, now: datetime | None = None, **parts: Any) -> Applied:
    """`parts`: fields of the plan, each a list."""
    plan = Plan(0, **{name: tuple(part) for name, part in parts.items()})
    return apply(plan=plan, loaded=loaded, ports=PortShortages(), now=now or timezone.now())


def obey(world: World) -> None:
    """Nodes do what they are told until nothing more moves."""
    world.obeyed()


def submitted(world: World, user: User, places: Places, **changes: Any) -> Job:
    """A job of the user's team with a task for each place; `changes` as for `job_file`."""
    gpus = len(next(iter(places.values())).split())
    text = job_file(instances=len(places), gpu=gpus, defaults={"virtualCluster": TEAMS[user.username]}, **changes)
    return job_submit(user=user, text=text, now=timezone.now())


def running(
    world: World, user: User, places: Places, *, borrowed: bool = False, now: datetime | None = None, **changes: Any
) -> Job:
    """A job that runs at these places."""
    job = submitted(world, user, places, **changes)
    loaded = read(now)
    assert carry_out(loaded, starts=[start(loaded, job, places, borrowed=borrowed)], now=now).started == 1
    obey(world)
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    return job

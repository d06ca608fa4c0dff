"""A cluster of 200 nodes with 8 GPUs each in the database, as the map of the cluster shows it: eight teams, idle and
borrowed GPUs, servers that are lost or closed, and sick GPUs.

Run as `python -m tests.e2e.browser.large_map` in the environment of a stack that has no nodes of its own.
"""

import random
from datetime import datetime

import django

from tests.benchmarks.fill import fill
from tests.benchmarks.filling.sizes import Sizes

NODES, RACK = 200, 10
TEAMS = ("language", "imaging", "speech", "robotics", "biology", "climate", "ranking", "platform")
PEOPLE = ("alma", "bela", "chen", "dara", "emre", "fenna", "goro", "hana", "ines", "juri", "kofi", "lena")
IDLE, BORROWED, SICK, LOST, CORDONED, DRAINING = 60, 24, 5, 2, 3, 1
SEED = 5


def cluster(now: datetime) -> None:
    from django.db.models import F

    from portal.accounts.models import User

    User.objects.update(uid=F("uid") + 20_000)  # those of `fill` take the numbers after 20,000
    fill(Sizes(nodes=NODES, vcs=len(TEAMS), running=420, waiting=0, finished=20, users=24, days=1))
    rng = random.Random(SEED)
    _names()
    _jobs(now, rng)
    _troubles(rng)


def _names() -> None:
    from portal.accounts.models import User
    from portal.hardware.models import Node
    from portal.teams.models import VirtualCluster

    for place, node in enumerate(Node.objects.order_by("name")):
        Node.objects.filter(pk=node.pk).update(name=f"gpu{place + 1:03}", rack=f"rack {place // RACK + 1:02}")
    for name, vc in zip(TEAMS, VirtualCluster.objects.filter(name__startswith="filled").order_by("name"), strict=True):
        VirtualCluster.objects.filter(pk=vc.pk).update(name=name)
    for place, user in enumerate(User.objects.filter(username__startswith="filled").order_by("username")):
        name = f"{PEOPLE[place % len(PEOPLE)]}{place // len(PEOPLE) or ''}"
        User.objects.filter(pk=user.pk).update(username=name)


def _jobs(now: datetime, rng: random.Random) -> None:
    from portal.jobs.models import Allocation, Job, Standing
    from portal.jobs.states import JobState

    running = list(Job.objects.filter(state=JobState.RUNNING).order_by("pk"))
    chosen = rng.sample(running, IDLE + BORROWED)
    over, borrowed = chosen[:IDLE], chosen[IDLE:]
    held = Allocation.objects.filter(released_at__isnull=True)
    held.filter(task_attempt__job_attempt__job__in=over).update(released_at=now)
    Job.objects.filter(pk__in=[job.pk for job in over]).update(state=JobState.SUCCEEDED, ended_at=now)
    held.filter(task_attempt__job_attempt__job__in=borrowed).update(standing=Standing.BORROWED, virtual_cell="")


def _troubles(rng: random.Random) -> None:
    from portal.hardware.models import Gpu, Node
    from portal.hardware.states import NodeHealth, NodeIntent
    from portal.hardware.wordings import NO_REPORT

    nodes = rng.sample(list(Node.objects.order_by("name")), LOST + CORDONED + DRAINING + SICK)
    lost, closed, draining, sick = (
        nodes[:LOST], nodes[LOST : LOST + CORDONED], nodes[LOST + CORDONED : -SICK], nodes[-SICK:]
    )  # fmt: skip
    keys = [[node.pk for node in some] for some in (lost, closed, draining)]
    Node.objects.filter(pk__in=keys[0]).update(
        health=NodeHealth.LOST, health_reason=NO_REPORT(time="12:00:00", seconds=60)
    )
    Node.objects.filter(pk__in=keys[1]).update(intent=NodeIntent.CORDONED, intent_reason="new driver")
    Node.objects.filter(pk__in=keys[2]).update(intent=NodeIntent.DRAINING, intent_reason="fan 3 is loud")
    for node in sick:
        gpu = rng.choice(list(Gpu.objects.filter(node=node).order_by("index")))
        Gpu.objects.filter(pk=gpu.pk).update(fault="Xid 79: the GPU has fallen off the bus")


def main() -> None:
    django.setup()
    from django.utils import timezone

    cluster(timezone.now())


if __name__ == "__main__":
    main()

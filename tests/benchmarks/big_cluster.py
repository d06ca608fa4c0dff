"""A large cluster in a real database, for benchmarks: rows as the services make them, copied until there are enough.

Nodes do what they are told at once, by a few statements: it is the scheduler that is timed, not they.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from tests.support.services.services import Services

if TYPE_CHECKING:
    from portal.jobs.models import Job, TaskRole

BATCH = 2000


@contextmanager
def database() -> Iterator[Services]:
    """A fresh PostgreSQL and Redis under Django, as the tests start them, but that every commit waits for the disk."""
    with closing(Services(durable=True)) as services:
        services.fill_environment()
        services.postgres.start()
        services.postgres.create_database("berth")
        services.redis.start()
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield services


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job asks for."""

    gpus: int
    tasks: int = 1
    cpu: int = 1
    borrow: str = "never"


@dataclass(frozen=True, slots=True)
class Wish:
    """A job to be submitted."""

    team: str
    user: str
    priority: int
    shape: Shape


def teams_make(teams: Sequence[str], users: int) -> None:
    """Teams with so many people each, who are named after the team."""
    from portal.hardware.services.silence import lane_pulse
    from portal.teams.services.teams import member_set, vc_create
    from tests.support.people.cast import person

    now = timezone.now()
    lane_pulse(now=now)
    for team in teams:
        vc = vc_create(name=team, host_network=True, now=now)
        for number in range(users):
            member_set(vc=vc, user=person(f"{team}-{number}"), role="lead", now=now)


def nodes_make(count: int, gpus: int, teams: Sequence[str]) -> None:
    """Equal nodes, in pairs and quads where they have 8 GPUs, shared out among the teams as whole nodes."""
    from portal.hardware.models import Gpu, Node
    from portal.teams.models import VirtualCluster
    from portal.teams.services.quotas import quota_set
    from tests.support.cluster.scripted_node import ScriptedNode

    first = ScriptedNode("gpu0000", gpus=gpus, cpus=96)
    if gpus == 8:
        groups = [
            replace(gpu, numa=gpu.index // 4, nvlink_group=gpu.index // 4, pcie_group=gpu.index // 2)
            for gpu in first.inventory.gpus
        ]
        first.inventory = replace(first.inventory, gpus=tuple(groups))
    assert first.report()
    row, leaves = first.row, list(Gpu.objects.all())
    nodes = Node.objects.bulk_create(_copy(row, name=f"gpu{number:04}") for number in range(1, count))
    copies = (_copy(leaf, node_id=node.pk, uuid=f"{node.name}-{leaf.index}") for node in nodes for leaf in leaves)
    Gpu.objects.bulk_create(copies, batch_size=BATCH)
    assert row.shape
    for number, team in enumerate(teams):
        share = count // len(teams) + (number < count % len(teams))
        quota_set(vc=VirtualCluster.objects.get(name=team), cell_type=row.shape, count=share, now=timezone.now())


def _copy(row: Any, **changes: Any) -> Any:
    columns = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return type(row)(**{**columns, "id": None, **changes})


class Submitter:
    """Stores many jobs at once: the file of each shape is judged once, as for its first user."""

    def __init__(self) -> None:
        from portal.accounts.models import User
        from portal.jobs.models import Job
        from portal.teams.models import VirtualCluster

        self._users = {user.username: user for user in User.objects.all()}
        self._vcs = {vc.name: vc for vc in VirtualCluster.objects.all()}
        self._drafts: dict[Shape, tuple[Job, list[TaskRole]]] = {}
        self._run = Job.objects.count()

    def submit(self, wishes: Iterable[Wish]) -> None:
        from portal.jobs.models import Job, Task, TaskRole

        drafts = [self._draft(wish) for wish in wishes]
        jobs = Job.objects.bulk_create([job for job, _ in drafts], batch_size=BATCH)
        roles = [_copy(role, job_id=job.pk) for job, (_, wanted) in zip(jobs, drafts, strict=True) for role in wanted]
        made = TaskRole.objects.bulk_create(roles, batch_size=BATCH)
        tasks = (Task(job_id=role.job_id, role=role, index=index) for role in made for index in range(role.instances))
        Task.objects.bulk_create(tasks, batch_size=BATCH)

    def _draft(self, wish: Wish) -> tuple[Job, list[TaskRole]]:
        from portal.jobs.services.admission import job_check
        from portal.jobs.services.submit import job_draft

        if wish.shape not in self._drafts:
            user = self._users[wish.user]
            spec = job_check(user=user, text=_file(wish))
            self._drafts[wish.shape] = job_draft(user=user, spec=spec, now=timezone.now())
        job, roles = self._drafts[wish.shape]
        self._run += 1
        changes = {
            "user_id": self._users[wish.user].pk, "vc_id": self._vcs[wish.team].pk, "run": self._run,
            "priority": wish.priority, "spec": {**job.spec, "vc": wish.team}, "submitted_at": timezone.now(),
        }  # fmt: skip
        return _copy(job, **changes), roles


def _file(wish: Wish) -> str:
    from tests.support.cluster.world import job_file

    shape = wish.shape
    resources = {"cpu": shape.cpu * max(shape.gpus, 1), "memoryMB": 4096 * max(shape.gpus, 1), "gpu": shape.gpus}
    return job_file(
        instances=shape.tasks,
        role={"resourcePerInstance": resources},
        berth={"borrow": shape.borrow},
        defaults={"virtualCluster": wish.team},
    )


def placed_run() -> None:
    """The nodes have started whatever was placed, an hour ago."""
    from nodes.protocol.states import ContainerState, Phase
    from portal.jobs.models import Job, JobAttempt, Task, TaskAttempt
    from portal.jobs.states import AttemptState, JobState, TaskState

    since = timezone.now() - timedelta(hours=1)
    Job.objects.filter(state=JobState.STARTING).update(state=JobState.RUNNING, started_at=since)
    JobAttempt.objects.filter(state=AttemptState.STARTING).update(state=AttemptState.RUNNING, started_at=since)
    Task.objects.filter(state=TaskState.STARTING).update(state=TaskState.RUNNING)
    live = TaskAttempt.objects.filter(phase__in=[Phase.PREPARE, Phase.RUN], ended_at=None, started_at=None)
    live.update(phase=Phase.RUN, state=ContainerState.RUNNING, started_at=since)


def ended(jobs: Sequence[int], *, again: bool = False) -> None:
    """These jobs (row ids) have left their nodes; ``again``: they wait once more."""
    from nodes.protocol.states import ContainerState, Phase
    from portal.jobs.models import Allocation, Job, JobAttempt, Task, TaskAttempt
    from portal.jobs.states import AttemptState, JobState, TaskState

    now = timezone.now()
    attempts = TaskAttempt.objects.filter(job_attempt__job__in=jobs, released_at=None)
    Allocation.objects.filter(task_attempt__in=attempts, released_at=None).update(released_at=now)
    attempts.update(phase=Phase.REMOVE, state=ContainerState.TERMINATED, ended_at=now, released_at=now, removed_at=now)
    JobAttempt.objects.filter(job__in=jobs).update(state=AttemptState.ENDED, ended_at=now)
    Task.objects.filter(job__in=jobs).update(state=TaskState.WAITING if again else TaskState.SUCCEEDED)
    if again:
        Job.objects.filter(pk__in=jobs).update(state=JobState.WAITING)
    else:
        Job.objects.filter(pk__in=jobs).update(state=JobState.SUCCEEDED, ended_at=now)

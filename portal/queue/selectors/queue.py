"""Waiting jobs in the last plan's order, with place and likely start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.fields.json import KeyTransform

from portal.common.aggregates import IdsVersion, Joined
from portal.common.prepared import Among, Prepared
from portal.hardware.models import Node
from portal.jobs.models import Claim, Job, JobEvent, TaskRole
from portal.jobs.selectors.lists import jobs_sized
from portal.jobs.states import JobState
from portal.queue.outlook import Endless, Plan, Score, StartRange, plan_read, queue_read, starts_read
from portal.queue.selectors.kinds import Kinds, kinds_wanted, roles_kinds, wanting


@dataclass(frozen=True, slots=True)
class Kept:
    """GPUs that others are leaving for a job: how many, on which nodes, since when."""

    gpus: int
    nodes: list[str]
    since: datetime


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting job. ``place``: in its virtual cluster among jobs that want the same hardware; None: the last plan
    gives it none. ``reserved``: the plan keeps GPUs free for it; ``kept``: GPUs that others are leaving for it."""

    job: Job
    place: int | None
    start: StartRange | None
    reserved: bool = False
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a waiting job will start, and how accurate such estimates were: in its virtual cluster if enough are scored
    there, else overall. ``endless``: why it has no estimate, if known."""

    start: StartRange | None
    score: Score | None
    endless: Endless | None = None


def queue_waiting() -> QuerySet[Job]:
    """Every waiting job, unrestricted; ``job_sight`` says who may see its name."""
    return Job.objects.filter(state=JobState.WAITING)


def jobs_waiting_for(*, node: Node) -> list[Job]:
    """Waiting jobs that name servers of which only this one exists. Three queries at most."""
    # Not "spec__berth__...": see portal/scheduler/facts.py.
    named = KeyTransform("nodes_only", KeyTransform("berth", "spec"))
    rows = Job.objects.filter(state=JobState.WAITING).annotate(named=named).exclude(named=None)
    found = {pk: set(names or ()) for pk, names in rows.order_by().values_list("pk", "named")}
    found = {pk: names for pk, names in found.items() if node.name in names}
    others = set(Node.objects.exclude(pk=node.pk).values_list("name", flat=True)) if found else set()
    ids = [pk for pk, names in found.items() if others.isdisjoint(names)]
    return list(Job.objects.filter(pk__in=ids).select_related("user", "vc").order_by("pk")) if ids else []


def queue_line(*, job: Job) -> QuerySet[Job]:
    """Waiting jobs that compete with this one, itself included: of its virtual cluster and class, those that want a GPU
    kind in common, or if it wants none, those that want none, which the scheduler takes last. Needs its virtual cluster
    loaded."""
    return _line(job, kinds_wanted(jobs=[job])[job.pk])


def queue_tied(*, job: Job) -> QuerySet[Job]:
    """The transitive closure of ``queue_line``: keeping the order of some means fixing that of all. A job that takes
    either of two kinds competes with jobs of both."""
    kinds = kinds_wanted(jobs=[job])[job.pk]
    while kinds and not (more := roles_kinds(job=job, among=_line(job, kinds))) <= kinds:
        kinds |= more
    return _line(job, kinds)


def _line(job: Job, kinds: Kinds) -> QuerySet[Job]:
    there = queue_waiting().filter(vc=job.vc_id, priority=job.priority)
    if kinds:
        return there.filter(Exists(wanting(job=job, kinds=kinds).filter(job=OuterRef("pk"))))
    return there.filter(~Exists(TaskRole.objects.filter(job=OuterRef("pk"), gpus__gt=0)))


def wants_gpus(*, job: Job) -> bool:
    """Whether any task of the job wants GPUs. One query."""
    return TaskRole.objects.filter(job=job.pk, gpus__gt=0).exists()


def queue_own(jobs: QuerySet[Job], *, job: Job) -> QuerySet[Job]:
    """Those of the job's owner that no lead has placed."""
    return jobs.filter(user=job.user_id, led=False)


def queue_ordered(jobs: QuerySet[Job], *, plan: Plan | None = None) -> list[int]:
    """Ids of these waiting jobs in the last plan's order; jobs it has not seen come last, oldest first. One query while
    the same jobs wait, else two."""
    plan, version = plan or plan_read(), jobs.order_by().aggregate(version=IdsVersion("pk"))["version"]
    if (order := plan.orders.get(version)) is None:
        ids = jobs.order_by().aggregate(ids=Joined("pk"))["ids"]
        waiting = {int(one) for one in ids.split(",")} if ids else set()
        order = [*(job for job in plan.places if job in waiting), *sorted(waiting - plan.places.keys())]
        if len(plan.orders) < MOST_ORDERS:
            plan.orders[version] = order
    return order


MOST_ORDERS = 50
"""So many are kept with a plan."""


def queue_rows(*, ids: Sequence[int], plan: Plan | None = None) -> list[Queued]:
    """The jobs with these ids, in this order; three queries and two reads of what the scheduler left, one if the plan
    is given."""
    plan, ranges, kept = plan or plan_read(), starts_read().ranges, gpus_kept(jobs=ids)
    return [
        Queued(job, plan.places.get(job.pk), ranges.get(job.pk), job.pk in plan.reserved, kept.get(job.pk))
        for job in jobs_sized(ids=ids)
    ]


def gpus_kept(*, jobs: Sequence[int]) -> dict[int, Kept]:
    """GPUs that others are leaving for these jobs. One query."""
    found: dict[int, list[tuple[str, datetime]]] = defaultdict(list)
    for job, node, since in _CLAIMS(jobs=jobs) if jobs else ():
        found[job].append((node, since))
    return {
        job: Kept(len(rows), sorted({node for node, _ in rows}), min(since for _, since in rows))
        for job, rows in found.items()
    }


_CLAIMS = Prepared(
    lambda: (
        Claim.objects.filter(Among("claimant", "jobs"))
        .order_by()
        .values_list("claimant", "leaf__node__name", "created_at")
    )
)


def queue_places(*, jobs: Sequence[Job]) -> dict[int, int]:
    """Places of those of the jobs that wait and have one: in their virtual clusters, among jobs that want the same
    hardware."""
    waiting = [job.pk for job in jobs if job.state == JobState.WAITING]
    places = queue_read() if waiting else {}
    return {job: place for job in waiting if (place := places.get(job))}


SCORED = 20
"""How many scored estimates make a score meaningful."""


def queue_labels(*, ids: Sequence[int]) -> dict[int, str]:
    """``user/name#run`` of the jobs with these ids, in their order. One query."""
    rows = Job.objects.filter(pk__in=ids).select_related("user").only("name", "run", "user__username").order_by()
    labels = {job.pk: job.label for job in rows}
    return {pk: labels[pk] for pk in ids if pk in labels}


def queue_moves(*, ids: Sequence[int], since: datetime) -> list[JobEvent]:
    """Recent moves of these jobs by people since then, newest first, at most ``MOVES_TOLD``. One query."""
    moved = JobEvent.objects.filter(job__in=ids, code="ordered", at__gt=since).select_related("job__user")
    return list(moved.order_by("-id")[:MOVES_TOLD])


MOVES_TOLD = 5


def job_forecast(*, job: Job) -> Forecast | None:
    """When the job will start; None if it does not wait. Needs the job's VC loaded."""
    return forecast(job_id=job.pk, vc=job.vc.name) if job.state == JobState.WAITING else None


def forecast(*, job_id: int, vc: str) -> Forecast:
    """The last estimate for a job of that virtual cluster, if any, and the score of past ones."""
    starts = starts_read()
    scores = [starts.scores[name] for name in (vc, "") if name in starts.scores]
    score = next((score for score in scores if score.count >= SCORED), None)
    return Forecast(starts.ranges.get(job_id), score, starts.endless.get(job_id))

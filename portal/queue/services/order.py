"""Moves a waiting job within the queue of its class: a lead moves any job of the team, an owner their own among
themselves. Rationale: docs/decisions/queue-order.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.accounts.rights import Action
from portal.common.bulk import rows_update
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.common.wake import scheduler_wake
from portal.jobs import wordings
from portal.jobs.models import Job
from portal.jobs.services.transitions import job_event, jobs_hold
from portal.jobs.states import JobState
from portal.queue.outlook import queue_reorder
from portal.queue.selectors.queue import queue_line, queue_ordered, queue_own, queue_tied, queue_waiting
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import job_sight

DEEPEST = 200
"""How many places of a class can be set by hand in one team: each is a row to write, and nobody looks beyond."""


@dataclass(frozen=True, slots=True)
class Place:
    """A target: right before or right after another waiting job (its id); ``own``: where it would stand by itself; none
    of them: the front. ``seen``: waiting jobs in the order that it was chosen from."""

    before: int | None = None
    after: int | None = None
    own: bool = False
    seen: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A waiting job of one virtual cluster and class. ``queue_ms`` None: ordered by its submission; ``near``: one of
    those among which the job is moved, else only one whose order must stay."""

    pk: int
    near: bool
    submitted_ms: int
    queue_ms: int | None
    led: bool

    @property
    def key(self) -> tuple[int, int]:
        """The scheduler's order among jobs of one user, and among those moved by a lead."""
        return self.submitted_ms if self.queue_ms is None else self.queue_ms, self.pk


Change = tuple[int, int | None, bool]
"""A job and its new ``queue_ms`` and ``led``."""


@dataclass(frozen=True, slots=True)
class Among:
    """Jobs among which somebody moves a waiting job, itself included: ``ids`` in the scheduler's order. ``lead``: all
    of its virtual cluster, class and line (``queue_line``), else only its owner's that no lead has placed."""

    ids: list[int]
    lead: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move: the place, from 1, ``before`` and ``after`` it of the ``count`` jobs among which it was
    made. ``after`` None: the job goes where it stands by itself, which the next plan says. ``changed``: something was;
    at the same place, a lead's move pins it there."""

    before: int
    after: int | None
    count: int
    changed: bool


def job_place_among(*, job: Job, actor: User) -> Among:
    """Jobs among which the actor can move this waiting one; needs user and VC loaded. A new plan may reorder them at
    any time. Raises Conflict if it does not wait, or for an owner if a lead has placed it."""
    lead = _leads(actor, job)
    row = _waiting_now(job)
    there = {one.pk for one in _rows(row, only_own=not lead) if one.near}
    return Among([pk for pk in queue_ordered(queue_waiting().filter(vc=row.vc_id)) if pk in there], lead)


def _leads(actor: User, job: Job) -> bool:
    return job_sight(user=actor, action=Action.VC_ORDER).covers(user_id=job.user_id, vc_id=job.vc_id)


def job_movable(*, job: Job, lead: bool) -> bool:
    """Whether a move can change anything for the waiting job: another one waits among those that a lead, or else its
    owner, moves it among, or it was moved and may go back. Needs its virtual cluster loaded."""
    if not lead and job.led:
        return False
    if job.queue_ms is not None:
        return True
    line = queue_line(job=job)
    return (line if lead else queue_own(line, job=job)).exclude(pk=job.pk).exists()


def job_place(*, job: Job, to: Place, actor: User, now: datetime) -> Moved:
    """Moves the waiting job; needs user and VC loaded. Already there: no change.

    Raises Conflict if it or the other job does not wait (any more) in this virtual cluster, class and line, or is not
    the owner's own, for a place too far back, and if those that were seen stand in another order by now.
    """
    lead = _leads(actor, job)
    with transaction.atomic():
        # Serialize moves in this virtual cluster.
        VirtualCluster.objects.select_for_update(no_key=True).get(pk=job.vc_id)
        row = _waiting_now(job)
        _check_seen(row, to.seen)
        rows = _rows(row, only_own=not lead)
        order = [one.pk for one in rows] if to.own else _moved(rows, job, to, lead=lead)
        near = {one.pk for one in rows if one.near}
        before, after = [one.pk for one in rows if one.near], [one for one in order if one in near]
        changes = _own(rows, job, lead) if to.own else (_led if lead else _among_own)(rows, job.pk, order)
        at = None if to.own else after.index(job.pk) + 1
        moved = Moved(before.index(job.pk) + 1, at, len(before), bool(changes))
        if not changes:
            return moved
        jobs_hold([change[0] for change in changes])
        still = {"state": JobState.WAITING, "vc": row.vc_id, "priority": row.priority}
        rows_update(Job, ("queue_ms", "led"), changes, only=still)
        _tell(row, to, actor, now, (before, after))
        transaction.on_commit(lambda: queue_reorder(order))
        transaction.on_commit(scheduler_wake)
        transaction.on_commit(lambda: announce("queue", {}))
    job.refresh_from_db(fields=["queue_ms", "led"])
    return moved


def _waiting_now(job: Job) -> Job:
    row = queue_waiting().filter(pk=job.pk, vc=job.vc_id).select_related("user", "vc").first()
    if row is None:
        raise Conflict(
            gettext("%(job)s does not wait in %(vc)s any more; only a waiting job has a place.")
            % {"job": job.label, "vc": job.vc.name}
        )
    return row


def _check_seen(job: Job, seen: Sequence[int]) -> None:
    """Checks the order that was seen, ignoring jobs that have come or gone since or are not in its way."""
    if not seen:
        return
    there = {*seen} & {*queue_line(job=job).values_list("pk", flat=True)}
    now = [one for one in queue_ordered(queue_waiting().filter(vc=job.vc_id)) if one in there]
    if now != [one for one in seen if one in there]:
        raise Conflict(
            gettext("The queue of %(vc)s has changed meanwhile; %(job)s was not moved. Look again.")
            % {"vc": job.vc.name, "job": job.label}
        )


def _rows(job: Job, *, only_own: bool) -> list[Row]:
    """Jobs among which it is moved, in order: all of its virtual cluster, class and line, or its owner's that no lead
    has moved; plus those tied to them (``queue_tied``)."""
    if only_own and job.led:
        raise Conflict(
            gettext("A lead has given %(job)s its place; ask a lead of %(vc)s to change it.")
            % {"job": job.label, "vc": job.vc.name}
        )
    line, waiting = queue_line(job=job), queue_tied(job=job)
    if only_own:
        line, waiting = queue_own(line, job=job), queue_own(waiting, job=job)
    near = {*line.order_by().values_list("pk", flat=True)}
    columns = ("pk", "submitted_at", "queue_ms", "led")
    found = {
        pk: Row(pk, pk in near, int(at.timestamp() * 1000), queue_ms, led)
        for pk, at, queue_ms, led in waiting.order_by().values_list(*columns)
    }
    by_key = sorted(found.values(), key=lambda one: one.key)
    if only_own:
        return by_key
    # The last plan may not know of leads' moves yet: those come first, in the order of their keys.
    shown = [found[pk] for pk in queue_ordered(waiting) if pk in found]
    return [*(one for one in by_key if one.led), *(one for one in shown if not one.led)]


def _moved(rows: Sequence[Row], job: Job, to: Place, *, lead: bool) -> list[int]:
    """All ids in the wanted order; unchanged if the job passes none that is in its way."""
    ids = [one.pk for one in rows]
    near = [one.pk for one in rows if one.near]
    others = [one for one in ids if one != job.pk]
    beside = to.before if to.before is not None else to.after
    if beside is None:
        # A lead moves to the very front; an owner's job takes the slot of the first that it passes.
        at = 0 if lead else min(map(others.index, (one for one in near if one != job.pk)), default=0)
    elif beside == job.pk:
        return ids
    elif beside in near:
        at = others.index(beside) + (to.before is None)
    else:
        raise Conflict(
            gettext(
                "Job %(beside)s does not wait beside %(job)s: a job is moved among those of its "
                "virtual cluster and class that want the same kind of GPU, or none as it does, by its owner among the "
                "owner's own that no lead has moved."
            )
            % {"beside": beside, "job": job.label}
        )
    order = [*others[:at], job.pk, *others[at:]]
    return ids if [one for one in order if one in {*near}] == near else order


def _led(rows: Sequence[Row], moved: int, order: Sequence[int]) -> list[Change]:
    """Pins all up to the last that a lead has placed, including this one, in this order: each a millisecond before the
    next, the last before the oldest of the class. Others stay unchanged."""
    found = {one.pk: one for one in rows}
    if found[moved].led and [one.pk for one in rows] == list(order):
        return []
    last = max(place for place, pk in enumerate(order) if pk == moved or found[pk].led)
    if last >= DEEPEST:
        raise Conflict(
            gettext("Only the first %(deepest)s places of a class are given by hand.") % {"deepest": DEEPEST}
        )
    first = min(one.submitted_ms if one.led else one.key[0] for one in rows) - (last + 1)
    wanted = [(pk, first + place, True) for place, pk in enumerate(order[: last + 1])]
    return [one for one in wanted if one != (one[0], found[one[0]].queue_ms, found[one[0]].led)]


def _among_own(rows: Sequence[Row], moved: int, order: Sequence[int]) -> list[Change]:
    """Permutes the owner's submission times among their jobs, so that nobody else loses a place."""
    found = {one.pk: one for one in rows}
    wanted: list[tuple[int, int]] = []
    for pk, slot in zip(order, sorted(one.key[0] for one in rows), strict=True):
        last = wanted[-1] if wanted else (slot, pk)
        wanted.append((max(slot, last[0] if last[1] <= pk else last[0] + 1), pk))
    return [(pk, at if at != found[pk].submitted_ms else None, False) for at, pk in wanted if (at, pk) != found[pk].key]


def _own(rows: Sequence[Row], job: Job, lead: bool) -> list[Change]:
    """Resets the job to its own place, for a lead; for an owner, all jobs moved among their own."""
    return [
        (one.pk, None, False)
        for one in rows
        if one.queue_ms is not None and (one.pk == job.pk if lead else not one.led)
    ]


def _tell(job: Job, to: Place, actor: User, now: datetime, orders: tuple[Sequence[int], Sequence[int]]) -> None:
    before, after = (order.index(job.pk) + 1 for order in orders)
    job_event(job=job, code="ordered", message=_words(job, to, actor), now=now, actor=actor.username)
    audit_write(
        Audited.JOB_ORDER, actor=actor.username, target=job.label, vc=job.vc.name, now=now,
        before={"place": before}, after={"place": None if to.own else after},
    )  # fmt: skip


def _words(job: Job, to: Place, actor: User) -> str:
    beside = to.before if to.before is not None else to.after
    who = actor.username
    if to.own:
        return wordings.TO_OWN_PLACE(who=who)
    if beside is None:
        front = wordings.TO_FRONT if actor.pk != job.user_id else wordings.TO_OWN_FRONT
        return front(priority=wordings.class_said(job.priority), vc=job.vc.name, who=who)
    other = Job.objects.select_related("user").only("name", "run", "user__username").get(pk=beside)
    return (wordings.BEFORE if to.before is not None else wordings.BEHIND)(job=other.label, who=who)

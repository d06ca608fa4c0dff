"""The queue's page, in the scheduler's order, and moving jobs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.pages import PageRequest, page_view, post_view
from portal.accounts.rights import Action
from portal.common.errors import Conflict
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.views.asked import numbers_posted, whole_number
from portal.queue.forms import QueueForm
from portal.queue.outlook import plan_read
from portal.queue.selectors.kinds import Kinds, kinds_wanted
from portal.queue.selectors.queue import Queued, queue_ordered, queue_rows, queue_waiting
from portal.queue.services.order import Place, job_place
from portal.queue.views.placing import moved_words
from portal.queue.views.start_scale import Bar, Scale
from portal.teams.selectors.visible import JobSight, job_sights

QUEUE_PAGE = 50


@dataclass(slots=True)
class Line:
    """A row of the page. ``known``: the reader may see which job it is; ``group`` and ``kinds``: the reader may move it
    among those of the group that share a GPU kind with it; ``above`` and ``below``: the nearest of them on the page,
    past which a button moves it; ``fronted``: others may stand before it, here or on an earlier page; ``bar``: its
    likely start."""

    queued: Queued
    known: bool
    group: Group | None
    kinds: Kinds = frozenset()
    above: int | None = None
    below: int | None = None
    fronted: bool = False
    bar: Bar | None = None

    @property
    def job(self) -> Job:
        return self.queued.job

    @property
    def kinds_named(self) -> str:
        """Kinds separated by spaces."""
        return " ".join(sorted(self.kinds))

    def meets(self, other: Line) -> bool:
        """Whether they compete; both of one group."""
        return not self.kinds or not self.kinds.isdisjoint(other.kinds)


class Group(NamedTuple):
    """Waiting jobs that the reader may move: those of a virtual cluster and class, with GPUs or without, or only
    ``owner``'s."""

    vc: int
    priority: int
    gpus: bool
    owner: int | None

    @property
    def key(self) -> str:
        """The group's name on the page."""
        return f"places-{self.vc}-{self.priority}-{'gpus' if self.gpus else 'none'}-{self.owner or 'all'}"


@page_view
def queue(request: PageRequest) -> HttpResponse:
    """Shows the queue; of other teams' jobs only whose they are."""
    form = QueueForm(request.GET, user=request.user)
    return render(request, "queue/parts/queue.html" if request.htmx else "queue/queue.html", _shown(request, form))


def _shown(request: PageRequest, form: QueueForm) -> dict[str, Any]:
    vc, first = form.chosen.get("vc"), form.chosen.get("first", 0)
    plan = plan_read()
    ids = queue_ordered(queue_waiting().filter(vc__name=vc) if vc else queue_waiting(), plan=plan)
    lines = _lines(request.user, queue_rows(ids=ids[first : first + QUEUE_PAGE], plan=plan), later=first > 0)
    seen: dict[Group, list[int]] = {}
    for line in lines:
        if line.group:
            seen.setdefault(line.group, []).append(line.job.pk)
    return {
        "form": form,
        "rows": lines,
        "groups": [(group.key, ",".join(map(str, jobs))) for group, jobs in seen.items()],
        "scale": _scaled(lines),
        "total": len(ids),
        "first": first,
        "query": urlencode(form.chosen),
        "earlier_query": urlencode({**form.chosen, "first": max(0, first - QUEUE_PAGE)}),
        "later_query": urlencode({**form.chosen, "first": first + QUEUE_PAGE}) if first + QUEUE_PAGE < len(ids) else "",
    }


def _scaled(lines: list[Line]) -> Scale | None:
    """The time scale for all lines' likely starts; None if none is known."""
    starts = [line.queued.start for line in lines if line.queued.start]
    scale = Scale.over(starts, timezone.now()) if starts else None
    for line in lines:
        if scale and line.queued.start:
            line.bar = scale.bar(line.queued.start)
    return scale


def _lines(user: User, rows: list[Queued], *, later: bool) -> list[Line]:
    """The page's lines; ``later``: there are earlier pages."""
    sight, orders, leads = job_sights(user=user, actions=[Action.JOB_READ, Action.JOB_ORDER, Action.VC_ORDER])
    lines = [_line(row, sight, orders, leads) for row in rows]
    groups: dict[Group, list[Line]] = {}
    for line in lines:
        if line.group:
            groups.setdefault(line.group, []).append(line)
    kinds = kinds_wanted(jobs=[line.job for group, some in groups.items() if group.gpus for line in some])
    for some in groups.values():
        for place, line in enumerate(some):
            line.kinds = kinds.get(line.job.pk, frozenset())
            upper = next((one for one in reversed(some[:place]) if line.meets(one)), None)
            line.above = upper.job.pk if upper else None
            line.fronted = later or upper is not None
        for place, line in enumerate(some):
            line.below = next((one.job.pk for one in some[place + 1 :] if line.meets(one)), None)
    return lines


def _line(row: Queued, sight: JobSight, orders: JobSight, leads: JobSight) -> Line:
    job = row.job
    whose = {"user_id": job.user_id, "vc_id": job.vc_id}
    own = not leads.covers(**whose)
    moves = orders.covers(**whose) and not (own and job.led)
    gpus = bool(cast(Any, job).gpu_count)
    group = Group(job.vc_id, job.priority, gpus, job.user_id if own else None) if moves else None
    return Line(row, sight.covers(**whose), group)


@post_view
def job_place_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Moves a waiting job before or behind another, to the front, or back to its own place. An open page gets its part
    rendered again, with the result."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_ORDER)
    try:
        moved = job_place(job=job, to=_asked(request), actor=request.user, now=timezone.now())
    except Conflict as conflict:
        told, tell = conflict.detail, messages.warning
    else:
        told, tell = moved_words(job, moved), messages.success if moved.changed else messages.warning
    form = QueueForm(request.POST, user=request.user)
    if request.htmx:
        context = {**_shown(request, form), "told": told, "moved": tell is messages.success}
        return render(request, "queue/parts/queue.html", context)
    tell(request, told)
    query = urlencode(form.chosen)
    return redirect(f"{reverse('queue')}?{query}" if query else "queue")


def _asked(request: PageRequest) -> Place:
    where, _sign, other = request.POST.get("to", "").partition(":")
    beside = whole_number(other)
    if where not in {"front", "own"} and (where not in {"before", "after"} or beside is None):
        raise BadRequest("The form names no place.")
    return Place(
        beside if where == "before" else None,
        beside if where == "after" else None,
        own=where == "own",
        seen=tuple(numbers_posted(request, "seen", most=QUEUE_PAGE)),
    )

"""What waits, in the order that the scheduler uses, and moving it there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.models import User
from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action
from portal.clusters.selectors import JobSight, job_sights
from portal.common.errors import Conflict
from portal.jobs.forms import QueueForm
from portal.jobs.models import Job
from portal.jobs.outlook import StartRange
from portal.jobs.selectors import Queued, job_with_right, queue_ordered, queue_rows, queue_waiting
from portal.jobs.services import Place, job_place

QUEUE_PAGE = 100


@dataclass(slots=True)
class Line:
    """A row of the page. ``above`` and ``below``: the jobs on the page past which a button moves it; ``moves``: whether
    the reader may move it, ``own``: among their own only."""

    job: Job
    place: int | None
    start: StartRange | None
    known: bool
    moves: bool
    own: bool
    above: int | None = None
    below: int | None = None


@login_required
@require_safe
def queue(request: PageRequest) -> HttpResponse:
    """What waits; of other teams' jobs only whose they are."""
    form = QueueForm(request.GET, user=request.user)
    vc, first = form.chosen.get("vc"), form.chosen.get("first", 0)
    ids = queue_ordered(queue_waiting().filter(vc__name=vc) if vc else queue_waiting())
    lines = _lines(request.user, queue_rows(ids=ids[first : first + QUEUE_PAGE]))
    context = {
        "form": form,
        "rows": lines,
        "moving": any(line.moves for line in lines),
        "total": len(ids),
        "first": first,
        "query": urlencode(form.chosen),
        "earlier_query": urlencode({**form.chosen, "first": max(0, first - QUEUE_PAGE)}),
        "later_query": urlencode({**form.chosen, "first": first + QUEUE_PAGE}) if first + QUEUE_PAGE < len(ids) else "",
    }
    return render(request, "jobs/parts/queue.html" if request.htmx else "jobs/queue.html", context)


def _lines(user: User, rows: list[Queued]) -> list[Line]:
    sight, orders, leads = job_sights(user=user, actions=[Action.JOB_READ, Action.JOB_ORDER, Action.VC_ORDER])
    lines = [_line(row, sight, orders, leads) for row in rows]
    groups: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        if line.moves:
            job = line.job
            groups.setdefault((job.vc_id, job.priority, job.user_id if line.own else None), []).append(line)
    for group in groups.values():
        for upper, lower in pairwise(group):
            upper.below, lower.above = lower.job.pk, upper.job.pk
    return lines


def _line(row: Queued, sight: JobSight, orders: JobSight, leads: JobSight) -> Line:
    whose = {"user_id": row.job.user_id, "vc_id": row.job.vc_id}
    own = not leads.covers(**whose)
    moves = orders.covers(**whose) and not (own and row.job.led)
    return Line(row.job, row.place, row.start, sight.covers(**whose), moves, own)


@login_required
@require_POST
def job_place_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Moves a waiting job before or behind another, to the front, or back to where it would stand by itself."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_ORDER)
    where, _sign, other = request.POST.get("to", "").partition(":")
    beside = int(other) if other.isascii() and other.isdigit() and len(other) < 19 else None
    if where not in {"front", "own"} and (where not in {"before", "after"} or beside is None):
        raise BadRequest("The form names no place.")
    place = Place(beside if where == "before" else None, beside if where == "after" else None, own=where == "own")
    try:
        job_place(job=job, to=place, actor=request.user, now=timezone.now())
    except Conflict as conflict:
        messages.warning(request, conflict.detail)
    else:
        messages.success(request, _("%(job)s has another place now.") % {"job": job.label})
    query = urlencode(QueueForm(request.POST, user=request.user).chosen)
    return redirect(f"{reverse('queue')}?{query}" if query else "queue")

"""The page for moving a waiting job in the queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, form_view, sent
from portal.accounts.rights import Action
from portal.common.errors import Conflict
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.views.asked import number_posted, numbers_posted
from portal.queue.forms import PlaceForm
from portal.queue.selectors.queue import queue_labels, queue_moves, queue_places, wants_gpus
from portal.queue.services.order import DEEPEST, Among, Moved, job_place, job_place_among

LATEST_MS = 2**42
"""The latest time accepted, in the year 2109: a browser may send any number, and the calendar ends."""


@form_view
def job_queue_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Shows the waiting job's place, asks for another, then moves it. If the order was changed meanwhile, shows the
    changes and keeps what was chosen."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_ORDER)
    posted = request.method == "POST"
    try:
        among = job_place_among(job=job, actor=request.user)
    except Conflict as conflict:
        return _page(request, job, refused=conflict.detail, status=409 if posted else 200)
    form = _form(request, job, among)
    if not form.is_valid():
        return _page(request, job, among=among, form=form, status=400 if posted else 200)
    try:
        seen = numbers_posted(request, "seen", most=DEEPEST + 1)
        moved = job_place(job=job, to=form.place(seen), actor=request.user, now=timezone.now())
    except Conflict as conflict:
        since = datetime.fromtimestamp(min(number_posted(request, "shown_ms"), LATEST_MS) / 1000, UTC)
        more = {"refused": conflict.detail, "moves": queue_moves(ids=_listed(job, among), since=since)}
        return _page(request, job, among=among, form=form, status=409, **more)
    (messages.success if moved.changed else messages.warning)(request, moved_words(job, moved))
    return redirect("job", job_id=job.pk)


def moved_words(job: Job, moved: Moved) -> str:
    """The result of a move in words, with places among the jobs that it was made among."""
    numbers: dict[str, Any] = {"job": job.label, "before": moved.before, "after": moved.after, "count": moved.count}
    if not moved.changed and moved.after is None:
        return _("%(job)s stands at its own place already.") % numbers
    if not moved.changed:
        return _("%(job)s stays where it was, at place %(before)d of %(count)d.") % numbers
    if moved.after is None:
        return _("%(job)s goes back from place %(before)d of %(count)d to where it stands by itself.") % numbers
    if moved.after == moved.before:
        return _("%(job)s stays at place %(before)d of %(count)d, and keeps it now as given by a lead.") % numbers
    return _("%(job)s went from place %(before)d to %(after)d of the %(count)d jobs that it is moved among.") % numbers


def counted_words(job: Job) -> str:
    """Among which jobs of its virtual cluster the job's place is counted."""
    match job.priority < 0, wants_gpus(job=job):
        case False, True:
            return _("It is counted among the jobs that want the same GPUs.")
        case False, False:
            return _("It is counted among the jobs without GPUs.")
        case True, True:
            return _("It is counted among the opportunistic jobs that want the same GPUs.")
        case _:
            return _("It is counted among the opportunistic jobs without GPUs.")


def _form(request: PageRequest, job: Job, among: Among) -> PlaceForm:
    labels = queue_labels(ids=_listed(job, among))
    others = {pk: f"{place}. {label}" for place, (pk, label) in enumerate(labels.items(), start=1) if pk != job.pk}
    return PlaceForm(sent(request), others=others, moved=job.queue_ms is not None)


def _listed(job: Job, among: Among) -> list[int]:
    """The places that can be given, plus the job itself wherever it stands."""
    first = among.ids[:DEEPEST]
    return first if job.pk in first else [*first, job.pk]


def _page(
    request: PageRequest, job: Job, *, among: Among | None = None, status: int = 200, **more: Any
) -> HttpResponse:
    context: dict[str, Any] = {"job": job, **more}
    if among is not None:
        context |= {
            "lead": among.lead,
            "count": len(among.ids),
            "place": among.ids.index(job.pk) + 1,
            "wants_gpus": wants_gpus(job=job),
            "place_of_all": queue_places(jobs=[job]).get(job.pk),
            "counted": counted_words(job),
            "seen": ",".join(map(str, _listed(job, among))),
            "shown_ms": int(timezone.now().timestamp() * 1000),
        }
    return render(request, "queue/queue_place.html", context, status=status)

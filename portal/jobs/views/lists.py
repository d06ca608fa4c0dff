"""The list of jobs: filters, saved views, and what is done to several at once."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action
from portal.clusters.selectors import job_sight
from portal.common.errors import Conflict, NotFound
from portal.jobs.filter_form import EVERYBODYS, JobFilterForm
from portal.jobs.models import VIEW_NAME_LENGTH
from portal.jobs.selectors import jobs_listed, saved_views
from portal.jobs.selectors.pages import jobs_found
from portal.jobs.services import Done, jobs_stop, jobs_tag, tag_fault, view_forget, view_save
from portal.jobs.services.bulk import AT_ONCE


@login_required
@require_safe
def job_list(request: PageRequest) -> HttpResponse:
    """The jobs one may see, filtered."""
    form = JobFilterForm(request.GET, user=request.user)
    page = jobs_found(user=request.user, only=form.to_filter())
    sight = job_sight(user=request.user, action=Action.JOB_TAG)
    query = form.query()
    context: dict[str, Any] = {
        "form": form,
        "page": page,
        "picks": {job.pk for job in page.jobs if sight.covers(user_id=job.user_id, vc_id=job.vc_id)},
        "filtered": bool(query),
        "query": form.query(before=form.chosen.get("before")),
        "newest_query": query,
        "older_query": form.query(before=page.older) if page.older else "",
    }
    if request.htmx:
        return render(request, "jobs/parts/list.html", context)
    return render(request, "jobs/list.html", context | _views(request, query))


def _views(request: PageRequest, query: str) -> dict[str, Any]:
    saved = list(saved_views(user=request.user))
    return {
        "everybodys": EVERYBODYS,
        "saved": saved,
        "shown": next((view for view in saved if view.query == query), None),
        "may_save": query not in {*(view.query for view in saved), *(known for _name, known in EVERYBODYS)},
    }


@login_required
@require_POST
def view_save_page(request: PageRequest) -> HttpResponse:
    """Keeps the filters under a name."""
    query = JobFilterForm(QueryDict(request.POST.get("query", "")), user=request.user).query()
    name = request.POST.get("name", "").strip()
    if not 0 < len(name) <= VIEW_NAME_LENGTH or "\0" in name:
        messages.error(request, _("Give the view a name of 1 to %(most)d letters.") % {"most": VIEW_NAME_LENGTH})
    else:
        try:
            view_save(user=request.user, name=name, query=query)
        except Conflict as conflict:
            messages.error(request, conflict.detail)
    return redirect(_address(query))


@login_required
@require_POST
def view_forget_page(request: PageRequest, view_id: int) -> HttpResponse:
    """Removes a saved view."""
    try:
        view_forget(user=request.user, view_id=view_id)
    except NotFound:
        messages.info(request, _("This view was gone already."))
    return redirect("jobs")


@login_required
@require_POST
def bulk_page(request: PageRequest) -> HttpResponse:
    """Does to each chosen job what was chosen, and tells what became of each. Before jobs are stopped it asks."""
    query = JobFilterForm(QueryDict(request.POST.get("query", "")), user=request.user).query()
    ids = [int(one) for one in request.POST.getlist("job") if one.isascii() and one.isdigit() and len(one) < 19]
    do, tag = request.POST.get("do", ""), request.POST.get("tag", "").strip()
    context: dict[str, Any] = {"back": _address(query), "query": query, "do": do, "tag": tag}
    if wrong := _wrong(ids, do, tag):
        messages.error(request, wrong)
        return redirect(context["back"])
    if do == "stop" and "sure" not in request.POST:
        jobs = list(jobs_listed(user=request.user).filter(pk__in=ids).order_by("-id"))
        return render(request, "jobs/bulk_stop.html", context | {"jobs": jobs})
    return render(request, "jobs/bulk_done.html", context | {"done": _done(request, ids, do, tag)})


def _wrong(ids: list[int], do: str, tag: str) -> str:
    """What is wrong with the request, in words; empty: nothing."""
    if not ids or do not in {"stop", "tag", "untag"}:
        return _("Choose one or more jobs first.")
    if len(ids) > AT_ONCE:
        return _("At most %(most)d jobs at once.") % {"most": AT_ONCE}
    return tag_fault(tag) if do == "tag" else ""


def _done(request: PageRequest, ids: list[int], do: str, tag: str) -> list[Done]:
    who, now = request.user, timezone.now()
    if do == "stop":
        return jobs_stop(jobs=ids, actor=who, now=now)
    return jobs_tag(jobs=ids, add=[tag] if do == "tag" else [], remove=[] if do == "tag" else [tag], actor=who, now=now)


def _address(query: str) -> str:
    return f"{reverse('jobs')}?{query}" if query else reverse("jobs")

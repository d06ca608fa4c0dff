"""The job list: filters, saved views, bulk actions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, page_view, post_view
from portal.accounts.rights import Action
from portal.common.errors import Conflict, NotFound
from portal.job_pages.forms.filters import EVERYBODYS, JobFilterForm
from portal.job_pages.forms.lists import BulkForm, ViewForm
from portal.job_pages.selectors import jobs_found
from portal.jobs.selectors.lists import jobs_listed, saved_views
from portal.jobs.services.bulk import AT_ONCE, Done, jobs_stop, jobs_tag
from portal.jobs.services.saved_views import view_forget, view_save
from portal.teams.selectors.visible import job_sight


@page_view
def job_list(request: PageRequest) -> HttpResponse:
    """Jobs that the reader may see, filtered."""
    form = JobFilterForm(request.GET, user=request.user)
    context = _listed(request, form)
    if request.htmx:
        return render(request, "job_pages/parts/list.html", context)
    return _page(request, context, ViewForm(), BulkForm())


def _listed(request: PageRequest, form: JobFilterForm) -> dict[str, Any]:
    page = jobs_found(user=request.user, only=form.to_filter())
    sight = job_sight(user=request.user, action=Action.JOB_TAG)
    query = form.query()
    return {
        "form": form,
        "page": page,
        "picks": {job.pk for job in page.jobs if sight.covers(user_id=job.user_id, vc_id=job.vc_id)},
        "filtered": bool(query),
        "query": form.query(before=form.chosen.get("before")),
        "newest_query": query,
        "older_query": form.query(before=page.older) if page.older else "",
    }


def _page(
    request: PageRequest, context: dict[str, Any], view_form: ViewForm, bulk_form: BulkForm, status: int = 200
) -> HttpResponse:
    more = {**_views(request, context["newest_query"]), "view_form": view_form, "bulk_form": bulk_form}
    return render(request, "job_pages/list.html", context | more, status=status)


def _again(
    request: PageRequest, form: JobFilterForm, *, view_form: ViewForm | None = None, bulk_form: BulkForm | None = None
) -> HttpResponse:
    """The page as sent, with errors beside their fields. Chosen jobs stay chosen, even if no longer on this page."""
    context = _listed(request, form)
    ticked = set(bulk_form.ids) if bulk_form else set()
    away = ticked - {job.pk for job in context["page"].jobs}
    others = jobs_listed(user=request.user).filter(pk__in=sorted(away)[:AT_ONCE]).order_by("-id") if away else []
    context |= {"ticked": ticked, "others": others}
    return _page(request, context, view_form or ViewForm(), bulk_form or BulkForm(), status=400)


def _views(request: PageRequest, query: str) -> dict[str, Any]:
    saved = list(saved_views(user=request.user))
    return {
        "everybodys": EVERYBODYS,
        "saved": saved,
        "shown": next((view for view in saved if view.query == query), None),
        "may_save": query not in {*(view.query for view in saved), *(known for _name, known in EVERYBODYS)},
    }


@post_view
def view_save_page(request: PageRequest) -> HttpResponse:
    """Saves the filters under a name."""
    form = _sent_filters(request)
    typed = ViewForm(request.POST)
    if typed.is_valid():
        try:
            view_save(user=request.user, name=typed.cleaned_data["name"], query=form.query())
        except Conflict as conflict:
            typed.add_error("name", conflict.detail)
        else:
            return redirect(_address(form.query()))
    return _again(request, form, view_form=typed)


def _sent_filters(request: PageRequest) -> JobFilterForm:
    """Filters of the page that held the form."""
    return JobFilterForm(QueryDict(request.POST.get("query", "")), user=request.user)


@post_view
def view_forget_page(request: PageRequest, view_id: int) -> HttpResponse:
    """Removes a saved view."""
    try:
        view_forget(user=request.user, view_id=view_id)
    except NotFound:
        messages.info(request, _("This view was gone already."))
    return redirect("jobs")


@post_view
def bulk_page(request: PageRequest) -> HttpResponse:
    """Applies the action to each chosen job and shows the results. Stopping asks for confirmation first."""
    filters, form = _sent_filters(request), BulkForm(request.POST)
    if not form.is_valid():
        return _again(request, filters, bulk_form=form)
    do, tag, query = (
        form.cleaned_data["do"],
        form.cleaned_data["tag"],
        filters.query(before=filters.chosen.get("before")),
    )
    context: dict[str, Any] = {"back": _address(query), "query": query, "do": do, "tag": tag}
    if do == "stop" and "sure" not in request.POST:
        jobs = list(jobs_listed(user=request.user).filter(pk__in=form.ids).order_by("-id"))
        return render(request, "job_pages/bulk_stop.html", context | {"jobs": jobs})
    return render(request, "job_pages/bulk_done.html", context | {"done": _done(request, form.ids, do, tag)})


def _done(request: PageRequest, ids: list[int], do: str, tag: str) -> list[Done]:
    who, now = request.user, timezone.now()
    if do == "stop":
        return jobs_stop(jobs=ids, actor=who, now=now)
    return jobs_tag(jobs=ids, add=[tag] if do == "tag" else [], remove=[] if do == "tag" else [tag], actor=who, now=now)


def _address(query: str) -> str:
    return f"{reverse('jobs')}?{query}" if query else reverse("jobs")

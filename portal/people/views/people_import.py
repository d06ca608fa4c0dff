"""The page that imports accounts from a table."""

from __future__ import annotations

import re
from uuid import uuid4

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters

from portal.accounts.models import User
from portal.accounts.pages import PageRequest, by, form_view, page_view
from portal.accounts.rights import Action
from portal.common.errors import Invalid
from portal.common.progress import progress_read, progress_steps
from portal.common.sentences import sentence
from portal.people.forms import TableForm
from portal.people.selectors.people import manage_right
from portal.people.selectors.people_pages import others_right
from portal.people.services.people_import import Row as ImportRow
from portal.people.services.people_import import people_import
from portal.people.table import COLUMNS, MOST_ROWS, table_of, table_rows

TICKET = re.compile(r"[0-9a-f]{32}")


@sensitive_post_parameters("table")
@form_view
def users_import(request: PageRequest) -> HttpResponse:
    """First previews what would become of each row, then on a second submit creates the accounts."""
    others_right(user=request.user, action=Action.USER_READ)
    manage_right(user=request.user, action=Action.USER_MANAGE)
    form = TableForm(*((request.POST, request.FILES) if request.method == "POST" else ()))
    rows: list[ImportRow] = []
    done = False
    if form.is_valid():
        rows, done = _read_and_do(request, form)
        form.data = {**request.POST.dict(), "table": _text_left(form.cleaned_data["content"], rows, done)}
    refused = sum(bool(row.faults) for row in rows)
    context = {
        "form": form,
        "rows": rows,
        "refused": refused,
        "created": sum(row.created for row in rows),
        "possible": len(rows) - refused,
        "done": done,
        "ticket": uuid4().hex,
        "columns": ", ".join(COLUMNS),
        "most": MOST_ROWS,
    }
    bad = form.errors or (refused and not done)
    return render(request, "people/users_import.html", context, status=400 if bad else 200)


def _text_left(content: bytes, rows: list[ImportRow], done: bool) -> str:
    """The table; after an import only the rows left to correct, empty if there are none."""
    if not done:
        return content.decode("utf-8-sig")
    lines = {row.line for row in rows if row.faults}
    return table_of(content, lines) if lines else ""


def _read_and_do(request: PageRequest, form: TableForm) -> tuple[list[ImportRow], bool]:
    """The rows with their results, actual or previewed; and whether accounts were created."""
    wanted = "apply" in request.POST
    try:
        rows = list(table_rows(form.cleaned_data["content"]))
    except Invalid as refusal:
        for fault in refusal.faults:
            line = f"{fault.path}: " if fault.path else ""
            form.add_error("table", sentence(f"{line}{fault.message}"))
        return [], False
    ticket = request.POST.get("ticket", "")
    told = progress_steps(_key(request.user, ticket)) if TICKET.fullmatch(ticket) else lambda done, total: None
    try:
        people_import(
            rows=rows, dry_run=not wanted, all_or_nothing=not form.cleaned_data["others"], told=told, **by(request)
        )
    except Invalid:  # the rows have the reasons
        return rows, False
    return rows, wanted


@page_view
def users_import_progress(request: PageRequest, ticket: str) -> JsonResponse:
    """Progress of the user's own import."""
    manage_right(user=request.user, action=Action.USER_MANAGE)
    found = progress_read(_key(request.user, ticket)) if TICKET.fullmatch(ticket) else None
    return JsonResponse(found._asdict() if found else {})


def _key(user: User, ticket: str) -> str:
    return f"people:{user.pk}:{ticket}"

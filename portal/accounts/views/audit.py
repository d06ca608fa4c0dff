"""The audit log's page: filters, pagination, export."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.datastructures import MultiValueDict

from portal.accounts.audit import audit_entries, audit_found
from portal.accounts.audit_filter import AuditFilter
from portal.accounts.forms import AuditForm
from portal.accounts.pages import PageRequest, page_view


@page_view
def audit(request: PageRequest) -> HttpResponse:
    """The entries, newest first."""
    form = AuditForm(request.GET)
    filters = MultiValueDict({name: [text] for name, text in form.api.items()})
    found = AuditFilter(filters, queryset=audit_entries(user=request.user)).qs
    entries, more = audit_found(entries=found, before=form.chosen.get("older"))
    context = {
        "form": form,
        "entries": entries,
        "filtered": bool(form.query()),
        "newest_query": form.query(),
        "older_query": form.query(older=entries[-1].pk) if more else "",
        "export_query": urlencode(form.api),
    }
    return render(request, "accounts/audit.html", context, status=400 if form.errors else 200)

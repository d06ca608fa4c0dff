"""Pages of what is wrong now, and of how the portal was set up."""

from __future__ import annotations

from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action
from portal.clusters.selectors import others_right, servers_closed
from portal.dispatch.alerts import SERVERS_CLOSED, alerts_seen
from portal.dispatch.overview import settings_shown

BRIEF = 3


@login_required
@require_safe
def alerts(request: PageRequest) -> HttpResponse:
    """What is wrong now, the worst first, each with what to do."""
    others_right(user=request.user, action=Action.ALERT_READ)
    context = {"alerts": alerts_seen(user=request.user, now=timezone.now())}
    return render(request, "dispatch/parts/alerts.html" if request.htmx else "dispatch/alerts.html", context)


@login_required
@require_safe
def alerts_brief(request: PageRequest) -> HttpResponse:
    """The worst that concern the reader, as a part of the home page, which says itself that no server takes new jobs;
    empty for who may read none."""
    found = [one for one in alerts_seen(user=request.user, now=timezone.now()) if one.code != SERVERS_CLOSED]
    shown = {"alerts": found[:BRIEF], "more": len(found) - BRIEF, "closed": not found and bool(servers_closed())}
    return render(request, "dispatch/parts/alerts_brief.html", shown)


@login_required
@require_safe
def settings(request: PageRequest) -> HttpResponse:
    """The values that came from the environment."""
    shown = settings_shown(user=request.user)
    groups = [(group, list(rows)) for group, rows in groupby(shown, key=lambda one: one.group)]
    return render(request, "dispatch/settings.html", {"groups": groups})

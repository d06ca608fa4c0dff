"""Pages of alerts and of the portal's settings."""

from __future__ import annotations

from itertools import groupby

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, form_view, page_view, post_view, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.alerts.forms import SilenceForm
from portal.alerts.nodes import SERVERS_CLOSED
from portal.alerts.seen import alerts_seen, silences_seen
from portal.alerts.settings_overview import settings_shown
from portal.alerts.silences import alert_to_silence, silence_end, silence_get, silence_set
from portal.hardware.selectors.closed import servers_closed
from portal.people.selectors.people_pages import others_right

BRIEF = 3


@page_view
def alerts(request: PageRequest) -> HttpResponse:
    """Lists present alerts, the worst first, each with advice."""
    others_right(user=request.user, action=Action.ALERT_READ)
    user, now = request.user, timezone.now()
    found = alerts_seen(user=user, now=now)
    shown = {one.silence.pk for one in found if one.silence}
    context = {
        "alerts": found,
        # Silences that cover no present alert: it may come back, or get milder.
        "silences": [one for one in silences_seen(user=user, now=now, alerts=found) if one.pk not in shown],
        "may_silence": allowed_everywhere(user, Action.ALERT_SILENCE),
    }
    return render(request, "alerts/parts/alerts.html" if request.htmx else "alerts/alerts.html", context)


@page_view
def alerts_brief(request: PageRequest) -> HttpResponse:
    """The worst alerts that concern the reader, as a part of the home page, which has its own notice if no server takes
    new jobs. Silenced ones are left out; empty for users who see no alerts."""
    seen = alerts_seen(user=request.user, now=timezone.now())
    found = [one for one in seen if one.code != SERVERS_CLOSED and one.silence is None]
    shown = {"alerts": found[:BRIEF], "more": len(found) - BRIEF, "closed": not found and bool(servers_closed())}
    return render(request, "alerts/parts/alerts_brief.html", shown)


@form_view
def alert_silence(request: PageRequest) -> HttpResponse:
    """Silences an alert: shows it with a form that asks why and for how long."""
    now = timezone.now()
    typed = sent(request)
    alert = alert_to_silence(user=request.user, key=(typed or request.GET).get("key", ""), now=now)
    form = SilenceForm(typed)
    if form.is_valid():
        until = now + form.cleaned_data["hours"]
        reason = form.cleaned_data["reason"]
        silence_set(key=alert.key, reason=reason, until=until, actor=request.user.username, now=now)
        messages.success(request, _("%(name)s is silenced.") % {"name": alert.name})
        return redirect("alerts")
    context = {"alert": alert, "form": form}
    return render(request, "alerts/alert_silence.html", context, status=400 if form.errors else 200)


@post_view
def alert_silence_end(request: PageRequest, silence_id: int) -> HttpResponse:
    """Ends a silence early."""
    now = timezone.now()
    silence = silence_get(user=request.user, silence_id=silence_id, now=now)
    silence_end(silence=silence, actor=request.user.username, now=now)
    messages.success(request, _("%(name)s is told again.") % {"name": silence.name})
    return redirect("alerts")


@page_view
def settings(request: PageRequest) -> HttpResponse:
    """Lists the settings from the environment."""
    shown = settings_shown(user=request.user)
    groups = [(group, list(rows)) for group, rows in groupby(shown, key=lambda one: one.group)]
    return render(request, "alerts/settings.html", {"groups": groups})

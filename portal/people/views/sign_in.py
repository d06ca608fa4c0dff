"""Signing in by a provider: there, and back."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.core import signing
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.audit import audit_write
from portal.accounts.identities import identity_tie
from portal.accounts.models import Audited
from portal.accounts.oidc.faults import SignInFault
from portal.accounts.oidc.flow import Person, Trip, person_fetch, trip_begin, trip_lost
from portal.accounts.oidc.provider import configured, provider_name
from portal.accounts.pages import PageRequest, login_show, target_of
from portal.accounts.services import SIGN_INS
from portal.common.errors import NotFound, Refused
from portal.common.throttles import by_address
from portal.people.services.sign_in import provider_sign_in

log = logging.getLogger(__name__)

SALT = "portal.sign-in"
TRIP_S = 600
MOST_TARGET = 1500
"""Characters of an address to come back to: it waits in a cookie, which takes no more than 4 kB."""
BACKEND = "django.contrib.auth.backends.ModelBackend"


@require_safe
def oidc_start(request: PageRequest) -> HttpResponse:
    """To the provider."""
    target = target_of(request)
    return _start(request, next=target if len(target) <= MOST_TARGET else "/")


@login_required
@require_POST
def oidc_tie(request: PageRequest) -> HttpResponse:
    """To the provider, whose answer is tied to the account that is logged in."""
    return _start(request, next=reverse("profile"), link=request.user.pk)


def _start(request: PageRequest, *, next: str, link: int = 0) -> HttpResponse:
    if not configured():
        raise NotFound("page")
    key, now = _address(request, "start "), timezone.now()
    try:
        SIGN_INS.take(key, now=now)
        trip, address = trip_begin(next=next, link=link)
        SIGN_INS.give_back(key, now=now)
    except Refused as refusal:
        return _refused(request, refusal, next)
    context = {"address": address, "provider": provider_name()}
    # No form may lead away from this site (form-action), so that a link does.
    answer = render(request, "accounts/tie.html", context) if link else redirect(address)
    answer.set_signed_cookie(
        _cookie(trip.state), signing.dumps(trip), salt=SALT, max_age=TRIP_S, path=reverse("oidc-start"),
        secure=settings.HTTPS, httponly=True, samesite="Lax",
    )  # fmt: skip
    return answer


def _address(request: PageRequest, step: str = "") -> str:
    """By which what fails is limited. The step to the provider counts for itself: while the provider is away, people of
    one address shut nobody there out who logs in by password."""
    return f"{step}{by_address(request.META.get('REMOTE_ADDR', ''))}"


def _cookie(state: str) -> str:
    """Of each sign-in its own, so that two at once do not disturb each other."""
    return f"sign-in-{re.sub(r'[^A-Za-z0-9_-]', '', state)[:12]}"


@require_safe
def oidc_callback(request: PageRequest) -> HttpResponse:
    """Back from the provider: logged in, or told in one sentence why not."""
    if not configured():
        raise NotFound("page")
    trip: Trip | None = None
    key, now = _address(request), timezone.now()
    try:
        SIGN_INS.take(key, now=now)
        trip = _trip(request)
        person = person_fetch(trip=trip, answer=request.GET.dict(), now=now)
        answer = _tied(request, trip, person) if trip.link else _logged_in(request, trip, person)
        SIGN_INS.give_back(key, now=now)
    except Refused as refusal:
        answer = _refused(request, refusal, trip.next if trip else "")
    answer.delete_cookie(_cookie(request.GET.get("state", "")), path=reverse("oidc-start"))
    return answer


def _trip(request: PageRequest) -> Trip:
    name = _cookie(request.GET.get("state", ""))
    try:
        return Trip(*signing.loads(str(request.get_signed_cookie(name, salt=SALT, max_age=TRIP_S))))
    except (KeyError, signing.BadSignature):
        raise trip_lost() from None


def _logged_in(request: PageRequest, trip: Trip, person: Person) -> HttpResponse:
    now = timezone.now()
    login(request, provider_sign_in(person=person, now=now), backend=BACKEND)
    # The groups are asked for again at the next sign-in. By a moment, not by a number of seconds: these would begin
    # anew with each change of the session.
    request.session.set_expiry(now + timedelta(hours=settings.OIDC_HOURS))
    request.session["by_provider"] = True
    return redirect(trip.next)


def _tied(request: PageRequest, trip: Trip, person: Person) -> HttpResponse:
    if request.user.pk != trip.link:
        raise trip_lost()
    identity_tie(
        user=request.user, issuer=person.issuer, subject=person.subject, now=timezone.now(),
        actor=request.user.username,
    )  # fmt: skip
    messages.success(request, _("From now on you log in by %(name)s too.") % {"name": provider_name()})
    return redirect("profile")


def _refused(request: PageRequest, refusal: Refused, target: str) -> HttpResponse:
    if isinstance(refusal, SignInFault):
        log.warning("a sign-in by %s failed: %s", settings.OIDC_ISSUER, refusal.detail)
        if refusal.code not in {"unreachable", "certificate", "issuer", "state"}:
            after = {"by": settings.OIDC_ISSUER, "why": refusal.code}
            audit_write(Audited.SIGN_IN_REFUSED, actor="", target="", now=timezone.now(), after=after)
    if request.user.is_authenticated:
        messages.error(request, refusal.detail)
        return redirect("profile")
    return login_show(request, target=target, refusal=refusal)

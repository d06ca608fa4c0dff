"""Sign-in by a provider: redirect there, and callback."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.core import signing
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from portal.accounts.audit import audit_write
from portal.accounts.identities import identity_tie
from portal.accounts.models import Audited
from portal.accounts.oidc.faults import SignInFault
from portal.accounts.oidc.flow import Person, Trip, person_fetch, trip_begin, trip_lost
from portal.accounts.oidc.provider import configured, provider_name
from portal.accounts.pages import PageRequest, by, login_show, post_view, target_of
from portal.accounts.services import SIGN_INS
from portal.common.errors import NotFound, Refused
from portal.common.throttles import by_address
from portal.people.services.sign_in import provider_sign_in

log = logging.getLogger(__name__)

SALT = "portal.sign-in"
TRIP_S = 600
MOST_TARGET = 1500
"""Longest URL to return to: it is kept in a cookie of at most 4 kB."""
BACKEND = "django.contrib.auth.backends.ModelBackend"


@require_safe
def oidc_start(request: PageRequest) -> HttpResponse:
    """Redirects to the provider."""
    target = target_of(request)
    return _start(request, next=target if len(target) <= MOST_TARGET else "/")


@post_view
def oidc_tie(request: PageRequest) -> HttpResponse:
    """Sends the logged-in user to the provider, to tie the identity there to their account."""
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
    # The policy's form-action forbids a redirect away from this site, so the page shows a link.
    answer = render(request, "accounts/tie.html", context) if link else redirect(address)
    answer.set_signed_cookie(
        _cookie(trip.state), signing.dumps(trip), salt=SALT, max_age=TRIP_S, path=reverse("oidc-start"),
        secure=settings.HTTPS, httponly=True, samesite="Lax",
    )  # fmt: skip
    return answer


def _address(request: PageRequest, step: str = "") -> str:
    """The key for limiting failures. The step to the provider has its own: while the provider is down, its users must
    not lock those who log in by password out of the same address."""
    return f"{step}{by_address(request.META.get('REMOTE_ADDR', ''))}"


def _cookie(state: str) -> str:
    """A cookie name for each sign-in, so that two at once do not clash."""
    return f"sign-in-{re.sub(r'[^A-Za-z0-9_-]', '', state)[:12]}"


@require_safe
def oidc_callback(request: PageRequest) -> HttpResponse:
    """Handles the provider's answer: logs in, or says in one sentence why not."""
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
    # Groups are read again at the next sign-in. An absolute expiry, since one in seconds would restart with each change
    # of the session.
    request.session.set_expiry(now + timedelta(hours=settings.OIDC_HOURS))
    request.session["by_provider"] = True
    return redirect(trip.next)


def _tied(request: PageRequest, trip: Trip, person: Person) -> HttpResponse:
    if request.user.pk != trip.link:
        raise trip_lost()
    identity_tie(user=request.user, issuer=person.issuer, subject=person.subject, **by(request))
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

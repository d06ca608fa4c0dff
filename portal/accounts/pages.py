"""Shared by pages: the request of who is signed in, kinds of views, and the log-in page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from portal.accounts.audit import By, audit_last
from portal.accounts.first import first_needed
from portal.accounts.forms import LoginForm
from portal.accounts.models import Audited, User
from portal.accounts.oidc.provider import configured, provider_name
from portal.common.errors import ChangedMeanwhile, Refused
from portal.common.forms import SeenForm, refusal_show


class PageRequest(HttpRequest):
    """A request of a signed-in user, as the middleware leaves it."""

    user: User
    htmx: HtmxDetails


View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def page_view(view: View) -> View:
    """A page that is only read, by whoever is signed in."""
    return login_required(require_safe(view))


def form_view(view: View) -> View:
    """A page with a form that is sent to itself."""
    return login_required(require_http_methods(["GET", "HEAD", "POST"])(view))


def post_view(view: View) -> View:
    """A form's or button's address that is only sent to."""
    return login_required(require_POST(view))


def sent(request: HttpRequest) -> QueryDict | None:
    """What was typed into the page's form; None where the page is only read."""
    return request.POST if request.method == "POST" else None


def by(request: PageRequest) -> By:
    """Who sends the request, for services."""
    return {"actor": request.user.username, "now": timezone.now()}


@contextmanager
def refusals_told(request: HttpRequest, level: int = messages.ERROR) -> Iterator[None]:
    """Tells on the next page what refuses to be done inside."""
    try:
        yield
    except Refused as refusal:
        messages.add_message(request, level, refusal.detail)


@contextmanager
def changes_merged(form: SeenForm, *actions: Audited, target: str, at: str | None = None) -> Iterator[None]:
    """Shows on the form what refuses to be done inside; what somebody else changed meanwhile is merged into it, with
    who it was by the audit log's last entry of these actions on ``target``."""
    try:
        yield
    except ChangedMeanwhile:
        form.take_present(audit_last(*actions, target=target))
    except Refused as refusal:
        refusal_show(form, refusal, at=at)


def target_of(request: HttpRequest) -> str:
    """The URL to go to after logging in; only within this portal."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    # What is no path would be taken for a view's name.
    return target if safe and target.startswith("/") else settings.LOGIN_REDIRECT_URL


def login_show(
    request: HttpRequest,
    *,
    form: LoginForm | None = None,
    target: str = "",
    kept: Iterable[tuple[str, str]] = (),
    refusal: Refused | None = None,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    """Renders the log-in page, with a form that waits for the log-in, and why the last try was refused."""
    form = form or LoginForm()
    context = {
        "form": form,
        "next": target,
        "kept": list(kept),
        "refusal": refusal.detail if refusal else "",
        "passwords": settings.PASSWORDS,
        "provider": provider_name() if configured() else "",
        "nobody_administers": first_needed(),
        **more,
    }
    return render(request, "accounts/login.html", context, status=refusal.status if refusal else status)

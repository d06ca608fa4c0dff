"""Log-in, log-out, and the user's own account."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.forms import LanguageForm, LoginForm, PasswordForm, TokenForm
from portal.accounts.kept import PREFIX, fields_kept
from portal.accounts.models import Scope
from portal.accounts.oidc.provider import configured, provider_name
from portal.accounts.pages import PageRequest, login_show, post_view, target_of
from portal.accounts.selectors import token_get, tokens_of
from portal.accounts.services import (
    PasswordsOff,
    WrongPassword,
    language_set,
    password_judge,
    password_prove,
    sign_in,
    token_create,
    token_revoke,
    user_set_password,
)
from portal.common.errors import NotFound, RateLimited, Refused
from portal.common.languages import language_keep


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def login_page(request: PageRequest) -> HttpResponse:
    """The log-in form; redirects to the requested page."""
    target = target_of(request)
    if request.user.is_authenticated and (request.method != "POST" or "signed_in" in request.POST):
        return _go_on(request, target)
    form = LoginForm(request.POST or None)
    refusal: Refused | None = None
    if request.method == "POST" and form.is_valid():
        try:
            user = sign_in(**form.cleaned_data, address=request.META.get("REMOTE_ADDR", ""), now=timezone.now())
        except Refused as refused:
            refusal = refused
        else:
            login(request, user)
            return _go_on(request, target)
    kept = [(f"{PREFIX}{name}", value) for name, value in fields_kept(request.POST)]
    asked = request.POST.get("next") or request.GET.get("next", "")
    return login_show(request, form=form, target=asked, kept=kept, refusal=refusal)


def _go_on(request: PageRequest, target: str) -> HttpResponse:
    """Redirects to the requested page; a form that waited for the log-in is first shown on a page that sends it."""
    kept = fields_kept(request.POST)
    if not kept:
        return redirect(target)
    context = {"target": target, "kept": kept, "may_look": target == reverse("submit")}
    return render(request, "accounts/resume.html", context)


def back_door_login(request: PageRequest) -> HttpResponse:
    """Redirects Django's admin to the portal's log-in, where tries are limited and audited."""
    if request.user.is_authenticated:
        raise NotFound("page")
    return redirect_to_login(target_of(request), settings.LOGIN_URL)


@require_POST
def logout_page(request: PageRequest) -> HttpResponse:
    """Logs out of this portal; tells the user if they are still logged in at the provider."""
    elsewhere = request.session.get("by_provider")
    logout(request)
    if elsewhere:
        words = _(
            "You are logged out here. At %(name)s you are still logged in; log out there too on a shared computer."
        )
        messages.info(request, words % {"name": provider_name()})
    return redirect(settings.LOGOUT_REDIRECT_URL)


@require_POST
def language(request: PageRequest) -> HttpResponse:
    """Sets the language, in this browser and for a logged-in user's account; returns to the page it was chosen on."""
    form = LanguageForm(request.POST)
    response = redirect(target_of(request))
    if form.is_valid():
        chosen = form.cleaned_data["language"]
        if request.user.is_authenticated:
            language_set(user=request.user, language=chosen, now=timezone.now())
        language_keep(response, chosen)
    return response


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: PageRequest) -> HttpResponse:
    """The user's account, tokens and password."""
    return _profile(request)


@sensitive_post_parameters("old", "new")
@post_view
def password_change(request: PageRequest) -> HttpResponse:
    if not settings.PASSWORDS:
        raise PasswordsOff
    form = PasswordForm(request.POST)
    form.is_valid()
    typed = form.cleaned_data
    if "old" in typed:
        try:
            password_prove(user=request.user, password=typed["old"], now=timezone.now())
        except WrongPassword:
            form.add_error("old", _("This is not the current password."))
        except RateLimited as error:
            form.add_error("old", error.detail)
    try:
        if "new" in typed:
            password_judge(user=request.user, password=typed["new"])
    except ValidationError as error:
        form.add_error("new", error)
    if form.errors:
        return _profile(request, password_form=form, status=400)
    user_set_password(user=request.user, password=typed["new"])
    update_session_auth_hash(request, request.user)
    messages.success(request, _("The password is changed. Other browsers are logged out."))
    return redirect("profile")


@post_view
def token_new(request: PageRequest) -> HttpResponse:
    """Makes a token and shows it once."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _profile(request, token_form=form, status=400)
    now = timezone.now()
    made = token_create(
        user=request.user,
        name=form.cleaned_data["name"],
        scope=Scope(form.cleaned_data["scope"]),
        now=now,
        expires_at=form.expires_at(now),
    )
    return _profile(request, made=made)


@post_view
def token_end(request: PageRequest, token_id: int) -> HttpResponse:
    token_revoke(token=token_get(user=request.user, token_id=token_id), now=timezone.now())
    messages.success(request, _("The token is revoked."))
    return redirect("profile")


def _profile(request: PageRequest, *, status: int = 200, **more: object) -> HttpResponse:
    context = {
        "tokens": tokens_of(user=request.user),
        "password_form": PasswordForm(),
        "language_form": LanguageForm({"language": request.user.language}),
        "token_form": TokenForm(),
        "now": timezone.now(),
        "passwords": settings.PASSWORDS,
        "provider": provider_name() if configured() else "",
        "tied": request.user.identities.filter(issuer=settings.OIDC_ISSUER).exists(),
        **more,
    }
    return render(request, "accounts/profile.html", context, status=status)

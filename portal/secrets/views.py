"""Secrets and registry log-ins: one's own, and those of a virtual cluster. Names are shown, values never."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from portal.accounts.models import User
from portal.accounts.pages import PageRequest, by, page_view, post_view
from portal.accounts.rights import Action
from portal.common.forms import refusals_shown
from portal.secrets.forms import LoginForm, SecretForm
from portal.secrets.models import SecretKind
from portal.secrets.selectors import secrets_of
from portal.secrets.services import secret_delete, secret_set
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import may, vc_with_right

Owner = User | VirtualCluster


def _owner(request: PageRequest, vc: str, action: Action) -> Owner:
    """Whose it is: the virtual cluster's, or without a name one's own."""
    return vc_with_right(user=request.user, name=vc, action=action) if vc else request.user


@page_view
def secrets(request: PageRequest, vc: str = "") -> HttpResponse:
    """What is stored, by name."""
    return _page(request, _owner(request, vc, Action.VC_SECRETS_LIST))


def _page(request: PageRequest, owner: Owner, *, status: int = 200, **typed: forms.Form) -> HttpResponse:
    vc = None if isinstance(owner, User) else owner
    context: dict[str, Any] = {
        "vc": vc,
        "secrets": secrets_of(owner=owner, kind=SecretKind.SECRET),
        "logins": secrets_of(owner=owner, kind=SecretKind.REGISTRY),
        "secret_form": SecretForm(auto_id="secret-%s"),
        "login_form": LoginForm(auto_id="login-%s"),
        "may_set": vc is None or may(user=request.user, vc=vc, action=Action.VC_SECRETS_SET),
        "base": _address(owner),
        **typed,
    }
    return render(request, "secrets/secrets.html", context, status=status)


def _address(owner: Owner) -> str:
    return reverse("secrets") if isinstance(owner, User) else reverse("vc-secrets", args=[owner.name])


@sensitive_post_parameters("value")
@post_view
def secret_store(request: PageRequest, vc: str = "") -> HttpResponse:
    """Stores a secret, in place of an earlier one of that name."""
    owner = _owner(request, vc, Action.VC_SECRETS_SET)
    form = SecretForm(request.POST, auto_id="secret-%s")
    if form.is_valid() and _stored(request, owner, form, SecretKind.SECRET, form.cleaned_data["name"]):
        return redirect(_address(owner))
    return _page(request, owner, status=400, secret_form=form)


@sensitive_post_parameters("password")
@post_view
def login_store(request: PageRequest, vc: str = "") -> HttpResponse:
    """Stores a registry log-in, in place of an earlier one of that server."""
    owner = _owner(request, vc, Action.VC_SECRETS_SET)
    form = LoginForm(request.POST, auto_id="login-%s")
    if form.is_valid() and _stored(request, owner, form, SecretKind.REGISTRY, form.cleaned_data["server"].lower()):
        return redirect(_address(owner))
    return _page(request, owner, status=400, login_form=form)


def _stored(request: PageRequest, owner: Owner, form: forms.Form, kind: SecretKind, name: str) -> bool:
    typed = form.cleaned_data
    value = typed["value"] if kind == SecretKind.SECRET else typed["password"]
    with refusals_shown(form):
        secret_set(owner=owner, kind=kind, name=name, value=value, username=typed.get("username", ""), **by(request))
        messages.success(request, _("%(name)s is stored. Its value is not shown again.") % {"name": name})
        return True
    return False


@post_view
def secret_forget(request: PageRequest, secret: str, vc: str = "") -> HttpResponse:
    """Forgets a secret."""
    return _forgotten(request, vc, SecretKind.SECRET, secret)


@post_view
def login_forget(request: PageRequest, server: str, vc: str = "") -> HttpResponse:
    """Forgets a registry log-in."""
    return _forgotten(request, vc, SecretKind.REGISTRY, server)


def _forgotten(request: PageRequest, vc: str, kind: SecretKind, name: str) -> HttpResponse:
    owner = _owner(request, vc, Action.VC_SECRETS_SET)
    secret_delete(owner=owner, kind=kind, name=name, **by(request))
    messages.success(request, _("%(name)s is deleted. Jobs that were submitted with it keep it.") % {"name": name})
    return redirect(_address(owner))

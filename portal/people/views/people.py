"""Account pages: the list, a new one, one account, its password, its deletion."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from portal.accounts.models import Audited, User
from portal.accounts.pages import PageRequest, by, changes_merged, form_view, page_view, post_view, refusals_told, sent
from portal.accounts.people import groups_named, user_change, user_remove, user_told
from portal.accounts.rights import Action, allowed_everywhere
from portal.accounts.services import user_set_password
from portal.common.checking import checked
from portal.common.errors import Invalid
from portal.common.forms import refusal_show, refusals_shown
from portal.common.versions import version_of
from portal.people.forms import NewUserForm, UserFilterForm, UserForm
from portal.people.forms import PasswordForm as UserPasswordForm
from portal.people.selectors.people import manage_right, people_described, user_get, user_to_manage
from portal.people.selectors.people_pages import others_right, users_found
from portal.people.services.people import account_create, account_faults
from portal.teams.selectors.visible import vcs_named


@page_view
def users(request: PageRequest) -> HttpResponse:
    """Lists accounts by name: all for administrators and auditors, their teams' for leads."""
    user = request.user
    others_right(user=user, action=Action.USER_READ)
    form = UserFilterForm(request.GET)
    found = users_found(user=user, **form.chosen)
    context = {
        "form": form,
        "people": found.rows,
        "filtered": bool(form.query()),
        "first_query": form.query(),
        "next_query": form.query(after=found.after) if found.after else "",
        "may_manage": allowed_everywhere(user, Action.USER_MANAGE),
    }
    return render(request, "people/users.html", context)


@sensitive_post_parameters("password")
@form_view
def user_new(request: PageRequest) -> HttpResponse:
    """Creates an account."""
    others_right(user=request.user, action=Action.USER_READ)
    manage_right(user=request.user, action=Action.USER_MANAGE)
    form = NewUserForm(sent(request))
    if request.method == "POST" and _made(form, request.user.username):
        name = form.cleaned_data["username"]
        messages.success(request, _("The account %(name)s is made.") % {"name": name})
        return redirect("user", username=name)
    return render(request, "people/user_new.html", {"form": form}, status=400 if form.errors else 200)


def _made(form: NewUserForm, actor: str) -> bool:
    """Creates the account; False if it is not valid, with every fault shown at its field."""
    form.is_valid()
    about = form.about
    faults = [fault for fault in account_faults(**about) if fault.path not in form.errors]
    refusal_show(form, Invalid(faults))
    if form.errors:
        return False
    with refusals_shown(form):
        with checked("password"):
            groups, vcs = groups_named(about.pop("groups")), vcs_named(about.pop("virtual_clusters"))
            account_create(**about, groups=groups, vcs=vcs, now=timezone.now(), actor=actor)
        return True
    return False


@form_view
def user_page(request: PageRequest, username: str) -> HttpResponse:
    """Shows an account, and changes it."""
    found = user_get(user=request.user, name=username)
    if request.method != "POST":
        return _page(request, found)
    user_to_manage(user=request.user, name=username)
    form = _form(found, request.POST)
    if form.is_valid():
        groups, seen = form.cleaned_data["groups"], form.cleaned_data["seen"] or None
        with changes_merged(form, Audited.USER_CHANGE, Audited.GROUP, target=username), checked():
            user_change(user=found, changes=form.changes, groups=groups_named(groups), seen=seen, **by(request))
            messages.success(request, _("%(name)s is changed.") % {"name": username})
            return redirect("user", username=username)
    return _page(request, found, form=form, status=409 if form.overtaken else 400)


def _form(user: User, data: Any = None) -> UserForm:
    told = user_told(user)
    return UserForm(data, present=told, seen=version_of(told))


def _page(
    request: PageRequest,
    found: User,
    *,
    form: UserForm | None = None,
    password: UserPasswordForm | None = None,
    status: int = 200,
) -> HttpResponse:
    (described,) = people_described(users=[found])
    context = {
        "person": described,
        "form": form or _form(found),
        "password_form": password or UserPasswordForm(auto_id="password-%s"),
        "may_manage": allowed_everywhere(request.user, Action.USER_MANAGE),
    }
    return render(request, "people/user.html", context, status=status)


@sensitive_post_parameters("password")
@post_view
def user_password(request: PageRequest, username: str) -> HttpResponse:
    """Sets an account's password."""
    found = user_to_manage(user=request.user, name=username)
    form = UserPasswordForm(request.POST, auto_id="password-%s")
    if form.is_valid():
        try:
            user_set_password(user=found, password=form.cleaned_data["password"], actor=request.user.username)
        except ValidationError as error:
            form.add_error("password", error)
        else:
            messages.success(request, _("%(name)s has a new password and is signed out.") % {"name": username})
            return redirect("user", username=username)
    return _page(request, found, password=form, status=400)


@post_view
def user_end(request: PageRequest, username: str) -> HttpResponse:
    """Deletes an account that has no jobs."""
    found = user_to_manage(user=request.user, name=username)
    with refusals_told(request):
        user_remove(user=found, **by(request))
        messages.success(request, _("The account %(name)s is removed.") % {"name": username})
        return redirect("users")
    return redirect("user", username=username)

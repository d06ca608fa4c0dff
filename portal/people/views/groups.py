"""Group pages: the list, a new one, one with its members."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.accounts.models import Audited
from portal.accounts.pages import PageRequest, by, changes_merged, form_view, page_view, post_view, sent
from portal.accounts.people import group_join, group_leave
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import NotFound
from portal.common.forms import refusals_shown
from portal.common.versions import version_of
from portal.people.forms import GroupForm, JoinForm, NewGroupForm
from portal.people.selectors.people import group_get, group_members, group_to_manage, manage_right, user_get
from portal.people.selectors.people_pages import groups_found, others_right
from portal.people.services.people import group_change, group_create, group_remove, group_told


@page_view
def groups(request: PageRequest) -> HttpResponse:
    """Lists groups by name."""
    user = request.user
    others_right(user=user, action=Action.GROUP_READ)
    text, after = request.GET.get("text", "")[:100], request.GET.get("after", "")[:150]
    found = groups_found(user=user, text=text.replace("\0", ""), after=after.replace("\0", ""))
    context = {
        "groups": found.rows,
        "text": text,
        "after": found.after,
        "may_manage": allowed_everywhere(user, Action.GROUP_MANAGE),
    }
    return render(request, "people/groups.html", context)


@form_view
def group_new(request: PageRequest) -> HttpResponse:
    """Creates a group."""
    others_right(user=request.user, action=Action.GROUP_READ)
    manage_right(user=request.user, action=Action.GROUP_MANAGE)
    form = NewGroupForm(sent(request))
    if form.is_valid():
        with refusals_shown(form, at="name"):
            made = group_create(**form.cleaned_data, roles={}, **by(request))
            messages.success(request, _("The group %(name)s is made.") % {"name": made.name})
            return redirect("group", group=made.name)
    return render(request, "people/group_new.html", {"form": form}, status=400 if form.errors else 200)


@form_view
def group_page(request: PageRequest, group: str) -> HttpResponse:
    """Shows a group and its members, and changes it."""
    row = group_get(user=request.user, name=group)
    if request.method != "POST":
        return _page(request, row)
    group_to_manage(user=request.user, name=group)
    form = _form(row, request.POST)
    if form.is_valid():
        description, seen = form.cleaned_data["description"], form.cleaned_data["seen"] or None
        with changes_merged(form, Audited.GROUP, Audited.VC_MEMBER, target=group, at="member"):
            group_change(group=row, description=description, roles=form.roles, seen=seen, **by(request))
            messages.success(request, _("%(name)s is changed.") % {"name": group})
            return redirect("group", group=group)
    return _page(request, row, form=form, status=409 if form.overtaken else 400)


def _form(group: Group, data: Any = None) -> GroupForm:
    told = group_told(group)
    by_role: dict[str, list[str]] = {"member": [], "lead": []}
    for name, role in told["virtual_clusters"].items():
        by_role[role].append(name)
    return GroupForm(data, present={"description": told["description"], **by_role}, seen=version_of(told))


def _page(
    request: PageRequest, row: Group, *, form: GroupForm | None = None, join: JoinForm | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "group": row,
        "members": group_members(group=row),
        "form": form or _form(row),
        "join_form": join or JoinForm(auto_id="join-%s"),
        "may_manage": allowed_everywhere(request.user, Action.GROUP_MANAGE),
    }
    return render(request, "people/group.html", context, status=status)


@post_view
def group_member_add(request: PageRequest, group: str) -> HttpResponse:
    """Adds a member."""
    row = group_to_manage(user=request.user, name=group)
    form = JoinForm(request.POST, auto_id="join-%s")
    if form.is_valid():
        try:
            user = user_get(user=request.user, name=form.cleaned_data["username"])
        except NotFound as refusal:
            form.add_error("username", refusal.detail)
        else:
            group_join(group=row, user=user, **by(request))
            return redirect("group", group=group)
    return _page(request, row, join=form, status=400)


@post_view
def group_member_remove(request: PageRequest, group: str, username: str) -> HttpResponse:
    """Removes a member."""
    row = group_to_manage(user=request.user, name=group)
    user = user_get(user=request.user, name=username)
    group_leave(group=row, user=user, **by(request))
    return redirect("group", group=group)


@post_view
def group_end(request: PageRequest, group: str) -> HttpResponse:
    """Deletes the group."""
    row = group_to_manage(user=request.user, name=group)
    group_remove(group=row, **by(request))
    messages.success(request, _("The group %(name)s is removed.") % {"name": group})
    return redirect("groups")

"""Storage pages: the list with where each is offered, and creating, changing and deleting one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.audit import audit_last
from portal.accounts.models import Audited
from portal.accounts.pages import PageRequest, by, form_view, page_view, post_view, refusals_told, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import ChangedMeanwhile, Invalid, Refused
from portal.common.forms import refusal_show, refusals_shown
from portal.common.versions import version_of
from portal.storages.forms import NewStorageForm, StorageForm
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_right, storage_to_manage, storages_placed, storages_seen
from portal.storages.selectors.ties import storage_servers
from portal.storages.services.storages import (
    storage_change,
    storage_change_faults,
    storage_create,
    storage_faults,
    storage_remove,
    storage_told,
)
from portal.storages.services.ties import storage_tie
from portal.teams.selectors.visible import node_get, vcs_named


@page_view
def storages(request: PageRequest) -> HttpResponse:
    """Lists all storages for administrators and auditors, for others those that their jobs may mount."""
    rows = storages_seen(user=request.user).prefetch_related("vcs").order_by("name").distinct()
    context = {
        "placed": storages_placed(storages=list(rows)),
        "may_manage": allowed_everywhere(request.user, Action.STORAGE_MANAGE),
    }
    return render(request, "storages/storages.html", context)


@form_view
def storage_new(request: PageRequest) -> HttpResponse:
    """Creates a storage."""
    storage_right(user=request.user)
    form = NewStorageForm(sent(request))
    if request.method == "POST" and _possible(form):
        about = dict(form.cleaned_data)
        with refusals_shown(form):
            vcs = vcs_named(about.pop("virtual_clusters"))
            made = storage_create(**about, vcs=vcs, **by(request))
            messages.success(request, _("The storage %(name)s is made.") % {"name": made.name})
            return redirect("storages")
    return render(request, "storages/storage.html", {"form": form}, status=400 if form.errors else 200)


def _possible(form: NewStorageForm) -> bool:
    """Whether the form is valid; if not, every fault is shown at its field."""
    form.is_valid()
    faults = [fault for fault in storage_faults(**form.about) if fault.path not in form.errors]
    refusal_show(form, Invalid(faults))
    return not form.errors


@form_view
def storage_page(request: PageRequest, name: str) -> HttpResponse:
    """Changes a storage."""
    storage = storage_to_manage(user=request.user, name=name)
    form = _form(storage, sent(request))
    if form.is_bound and _changed(form, storage, request.user.username):
        messages.success(request, _("%(name)s is changed.") % {"name": name})
        return redirect("storages")
    status = 409 if form.overtaken else 400 if form.errors else 200
    context = {"form": form, "storage": storage, "servers": storage_servers(storage=storage)}
    return render(request, "storages/storage.html", context, status=status)


@post_view
def storage_server(request: PageRequest, name: str, node: str) -> HttpResponse:
    """Ties a server to a storage, or unties it."""
    storage = storage_to_manage(user=request.user, name=name)
    row, tied = node_get(user=request.user, name=node), request.POST.get("tied") == "yes"
    with refusals_told(request):
        storage_tie(storage=storage, node=row, tied=tied, **by(request))
        words = _("%(node)s is tied to %(storage)s.") if tied else _("%(node)s is untied from %(storage)s.")
        messages.success(request, words % {"node": row.name, "storage": name})
    return redirect("storage", name=name)


def _form(storage: Storage, data: Any) -> StorageForm:
    told = storage_told(storage)
    return StorageForm(data, present=told, seen=version_of(told))


def _changed(form: StorageForm, storage: Storage, actor: str) -> bool:
    """Whether the change was made; if not, faults are shown at their fields, or what somebody else changed."""
    refusal: Refused | None = None
    if form.is_valid():
        try:
            storage_change(
                storage=storage, changes=form.changes, virtual_clusters=form.cleaned_data["virtual_clusters"],
                seen=form.cleaned_data["seen"] or None, now=timezone.now(), actor=actor,
            )  # fmt: skip
        except ChangedMeanwhile:
            form.take_present(audit_last(Audited.STORAGE, target=storage.name))
            return False
        except Refused as refused:
            refusal = refused
        else:
            return True
    named = form.cleaned_data.get("virtual_clusters", [])
    faults = storage_change_faults(storage=storage, changes=form.changes, virtual_clusters=named)
    refusal_show(form, Invalid([fault for fault in faults if fault.path not in form.errors]))
    if refusal is not None and not form.errors:
        refusal_show(form, refusal)
    return False


@post_view
def storage_end(request: PageRequest, name: str) -> HttpResponse:
    """Deletes a storage; its files stay."""
    storage = storage_to_manage(user=request.user, name=name)
    with refusals_told(request):
        storage_remove(storage=storage, **by(request))
        messages.success(request, _("%(name)s is removed; the files in it stay.") % {"name": name})
        return redirect("storages")
    return redirect("storage", name=name)

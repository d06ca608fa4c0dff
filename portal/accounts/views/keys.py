"""The page of the user's SSH keys."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.forms import SshKeyForm
from portal.accounts.keys import ssh_key_add, ssh_key_get, ssh_key_remove, ssh_keys_of
from portal.accounts.pages import PageRequest, form_view, post_view, sent
from portal.common.forms import refusals_shown


@form_view
def ssh_keys(request: PageRequest) -> HttpResponse:
    """Lists the keys and adds one."""
    form = SshKeyForm(sent(request))
    if form.is_valid():
        with refusals_shown(form, at="public"):
            made = ssh_key_add(user=request.user, **form.cleaned_data, now=timezone.now())
            messages.success(request, _("The key %(name)s is stored.") % {"name": made.name})
            return redirect("ssh-keys")
    context = {"form": form, "keys": ssh_keys_of(user=request.user)}
    return render(request, "accounts/keys.html", context, status=400 if form.errors else 200)


@post_view
def ssh_key_end(request: PageRequest, key_id: int) -> HttpResponse:
    """Deletes a key."""
    ssh_key_remove(key=ssh_key_get(user=request.user, key_id=key_id), now=timezone.now())
    messages.success(request, _("The key is deleted."))
    return redirect("ssh-keys")

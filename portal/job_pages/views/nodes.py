"""Giving up a node that does not come back, by an administrator."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, post_view, refusals_told
from portal.accounts.rights import Action
from portal.cluster.forms.nodes import GiveUpForm
from portal.jobs.services.forgetting import node_give_up
from portal.teams.selectors.visible import node_with_right


@post_view
def node_given_up(request: PageRequest, name: str) -> HttpResponse:
    """Gives up the node. Browsers already reject a missing or overlong reason."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_SET_INTENT)
    form = GiveUpForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["reason"])))
        return redirect("node", name=name)
    with refusals_told(request):
        node_give_up(node=node, **form.cleaned_data, **by(request))
        messages.success(request, _("%(node)s is given up; its jobs wait for other nodes.") % {"node": name})
    return redirect("node", name=name)

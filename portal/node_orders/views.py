"""An administrator's decision about an unknown container on a node."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, post_view, refusals_told
from portal.accounts.rights import Action
from portal.cluster.forms.nodes import StrangerForm
from portal.node_orders.services.unknown_containers import stranger_stop
from portal.teams.selectors.visible import node_with_right


@post_view
def stranger_end(request: PageRequest, name: str, attempt: str) -> HttpResponse:
    """Stops it. Browsers prevent a reason that is too long."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_SET_INTENT)
    form = StrangerForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["reason"])))
        return redirect("node", name=name)
    with refusals_told(request):
        stranger_stop(node=node, attempt=attempt, **form.cleaned_data, **by(request))
        messages.success(request, _("The container is asked to end; its GPUs are free once it is gone."))
    return redirect("node", name=name)

"""The page that removes a node: it previews the effect first."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view
from portal.accounts.rights import Action
from portal.common.errors import Conflict
from portal.scheduler.changes import node_remove
from portal.scheduler.views.quota import Look
from portal.teams.selectors.visible import node_with_right


@form_view
def node_end(request: PageRequest, name: str) -> HttpResponse:
    """Shows what would be short without the node, asks, then removes it."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_REMOVE)
    dry, refused, done = request.method != "POST", "", None
    try:
        done = node_remove(node=node, dry_run=dry, **by(request))
    except Conflict as conflict:
        refused = conflict.detail
    if done is not None and not dry:
        messages.success(request, _("%(node)s is removed. What ran on it stays in the history.") % {"node": name})
        return redirect("cluster")
    context = {
        "node": node,
        "refused": refused,
        "shortages": done.shortages if done else [],
        "stranded": done.stranded if done else [],
        "look": Look(done.effect) if done else None,
    }
    return render(request, "cluster/node_remove.html", context, status=409 if refused and not dry else 200)

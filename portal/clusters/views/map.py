"""The cluster page: nodes, their GPUs, and who holds them."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action, allowed_everywhere
from portal.clusters.forms import IntentForm
from portal.clusters.models import Node, VirtualCluster
from portal.clusters.selectors import (
    GpuPlace,
    JobSight,
    SkuShare,
    cell_types,
    cluster_right,
    job_sight,
    node_get,
    node_loads,
    node_restrict,
    node_with_right,
    sku_totals,
    vc_restrict,
    vc_shares,
)
from portal.clusters.services import node_set_intent, topology_take
from portal.clusters.states import INTENT_MOVES, NodeHealth, NodeIntent
from portal.common.errors import Conflict

COLOURS = 8


@dataclass(frozen=True, slots=True)
class GpuCell:
    """A GPU on the map. ``colour`` is its holder's virtual cluster's; ``known``: the job may be shown."""

    place: GpuPlace
    colour: int | None
    known: bool


@dataclass(frozen=True, slots=True)
class NodeCard:
    """A node on the map; ``moves`` are the intents that an administrator may choose."""

    node: Node
    cells: list[GpuCell]
    cpu_milli_held: int
    memory_mb_held: int
    moves: list[NodeIntent]

    @property
    def well(self) -> bool:
        """Whether it takes tasks."""
        return self.node.intent == NodeIntent.OPEN and self.node.health == NodeHealth.HEALTHY


@login_required
@require_safe
def cluster(request: PageRequest) -> HttpResponse:
    """Every node with its GPUs, coloured by the virtual cluster that holds them."""
    sight = job_sight(user=request.user)
    may_change = allowed_everywhere(request.user, Action.NODE_SET_INTENT)
    nodes = list(node_restrict(user=request.user).select_related("sku", "shape"))
    loads = node_loads(nodes=nodes)
    cards = [
        NodeCard(
            load.node,
            [_cell(place, sight) for place in load.gpus],
            load.cpu_milli_held,
            load.memory_mb_held,
            _moves(load.node) if may_change else [],
        )
        for load in loads
    ]
    context = {
        "cards": cards,
        "skus": sku_totals(),
        "legend": _legend(cards),
        "vcs": _vcs(request),
        "kinds": cell_types(),
        "may_configure": allowed_everywhere(request.user, Action.CLUSTER_CONFIGURE),
    }
    return render(request, "clusters/parts/cluster.html" if request.htmx else "clusters/cluster.html", context)


def _vcs(request: PageRequest) -> list[tuple[VirtualCluster, list[SkuShare]]]:
    vcs = list(vc_restrict(user=request.user))
    shares = vc_shares(vcs=vcs)
    return [(vc, shares[vc.pk]) for vc in vcs]


def _cell(place: GpuPlace, sight: JobSight) -> GpuCell:
    holder = place.holder
    if holder is None:
        return GpuCell(place, None, known=False)
    return GpuCell(place, holder.vc_id % COLOURS, sight.covers(user_id=holder.user_id, vc_id=holder.vc_id))


def _moves(node: Node) -> list[NodeIntent]:
    return [intent for intent in NodeIntent if intent in INTENT_MOVES[node.intent]]


def _legend(cards: list[NodeCard]) -> list[tuple[str, int, int]]:
    """The virtual clusters on the map: name, colour, GPUs held."""
    held: dict[tuple[str, int], int] = {}
    for card in cards:
        for cell in card.cells:
            if cell.place.holder is not None and cell.colour is not None:
                key = (cell.place.holder.vc, cell.colour)
                held[key] = held.get(key, 0) + 1
    return [(name, colour, count) for (name, colour), count in sorted(held.items())]


@login_required
@require_POST
def node_intent(request: PageRequest, name: str) -> HttpResponse:
    """Opens, cordons or drains a node."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_SET_INTENT)
    form = IntentForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Nothing was changed: choose what is wanted of the node."))
        return redirect("cluster")
    try:
        node_set_intent(node=node, **form.cleaned_data, actor=request.user.username, now=timezone.now())
    except Conflict as conflict:
        messages.error(request, conflict.detail)
    return redirect("cluster")


@login_required
@require_POST
def node_topology(request: PageRequest, name: str) -> HttpResponse:
    """Takes a node's topology anew."""
    node = node_get(user=request.user, name=name)
    cluster_right(user=request.user)
    try:
        topology_take(node=node, now=timezone.now(), actor=request.user.username)
    except Conflict as conflict:
        messages.error(request, conflict.detail)
    else:
        messages.success(request, _("The topology of %(node)s is taken anew.") % {"node": node.name})
    return redirect("cluster")

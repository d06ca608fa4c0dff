"""Pages of nodes: the list, one node, and an administrator's actions."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from nodes.protocol.messages import GpuProcess
from portal.accounts.pages import PageRequest, by, page_view, post_view, refusals_told
from portal.accounts.rights import Action, allowed_everywhere
from portal.cluster.forms.nodes import GiveUpForm, IntentForm, PutBackForm, StrangerForm
from portal.cluster.selectors.loads import GpuPlace, NodeLoad, node_loads
from portal.cluster.selectors.node_page import Drain, NodeTask, node_drain, node_events, node_tasks
from portal.cluster.selectors.overview import NodeSpot, Place, overview
from portal.cluster.services.topology import topology_take
from portal.common.errors import Conflict
from portal.hardware.acceptance import offer_checked, offer_words
from portal.hardware.disks import node_largest
from portal.hardware.listeners import node_listeners
from portal.hardware.models import Node
from portal.hardware.outages import closed_why, growth_why, out_cure, stuck_cure
from portal.hardware.selectors.live import Live, gpus_live
from portal.hardware.selectors.unknown_containers import node_strangers
from portal.hardware.services.fences import node_put_back
from portal.hardware.services.nodes import node_set_intent
from portal.hardware.silences import node_silent_long
from portal.hardware.states import INTENT_MOVES, NodeHealth, NodeIntent
from portal.joining.services.acceptance import node_accept, node_set_cpu_tasks
from portal.parking.selectors import cannot_park, node_parked_mb
from portal.storages.selectors.storages import storages_exported, storages_of_node
from portal.teams.selectors.visible import JobSight, cluster_right, job_sight, node_add_right, node_get, node_with_right

PAGE = 100
BACK_ID = "back-%s"
"""Several forms have a ``reason``."""
STATES = [NodeIntent.OPEN, NodeIntent.CORDONED, NodeIntent.DRAINING, NodeHealth.LOST, NodeHealth.UNKNOWN]


class NodeLine(NamedTuple):
    """A node in the list, with its GPUs by state."""

    spot: NodeSpot
    gpus: dict[Place, int]


@page_view
def node_list(request: PageRequest) -> HttpResponse:
    """Lists nodes in words: the map for who cannot see it."""
    text, state = request.GET.get("text", "").strip(), request.GET.get("state", "")
    found = [one for one in overview(user=request.user).nodes if _wanted(one, text.lower(), state)]
    pages = max(1, -(-len(found) // PAGE))
    page = _page_number(request.GET.get("page", ""), pages)
    context = {
        "lines": [NodeLine(one, _counted(one)) for one in found[(page - 1) * PAGE : page * PAGE]],
        "count": len(found),
        "page": page,
        "earlier": page - 1,
        "later": page + 1,
        "pages": pages,
        "text": text,
        "state": state,
        "states": STATES,
        "may_add": allowed_everywhere(request.user, Action.NODE_ADD),
    }
    return render(request, "cluster/parts/nodes.html" if request.htmx else "cluster/nodes.html", context)


def _wanted(one: NodeSpot, text: str, state: str) -> bool:
    named = text in one.node.name.lower() or text in one.section.lower()
    sick = state == Place.SICK and any(place == Place.SICK for _, place in one.places)
    return named and (not state or one.node.state == state or sick)


def _counted(one: NodeSpot) -> dict[Place, int]:
    return {place: sum(count for (_, there), count in one.places.items() if there == place) for place in Place}


def _page_number(text: str, pages: int) -> int:
    return min(int(text), pages) if text.isascii() and text.isdigit() and len(text) < 6 and int(text) else 1


class GpuLine(NamedTuple):
    """A GPU of the node, its holder and its current reading."""

    place: GpuPlace
    live: Live | None
    known: bool

    @property
    def counted(self) -> str:
        """What it counts of its parts at work; empty where it does not."""
        told = self.live.reading if self.live else None
        words = {
            _("SM"): told and told.sm_active,
            _("tensor cores"): told and told.tensor_active,
            _("bandwidth"): told and told.dram_active,
        }
        return " · ".join(f"{name} {percent} %" for name, percent in words.items() if percent is not None)

    @property
    def processes(self) -> tuple[GpuProcess, ...]:
        """Those on it, where that is more than one of a task."""
        found = self.live.reading.processes if self.live else ()
        return found if len(found) > 1 or any(one.attempt is None for one in found) else ()


class TaskLine(NamedTuple):
    """A task on the node. ``known``: the reader may see it; ``gone_by``: on a draining node, when it will have ended at
    the latest."""

    task: NodeTask
    known: bool
    gone_by: datetime | None


@page_view
def node(request: PageRequest, name: str) -> HttpResponse:
    """Shows a node: its GPUs live, its tasks, events and possible actions."""
    return _node_page(request, node_get(user=request.user, name=name))


def _node_page(request: PageRequest, row: Node, *, status: int = 200, **more: Any) -> HttpResponse:
    sight = job_sight(user=request.user)
    load = node_loads(nodes=[row])[0]
    tasks, strangers = node_tasks(node=row), node_strangers(row)
    drain = node_drain(node=row, left=len(tasks))
    context: dict[str, Any] = {
        "node": row,
        "load": load,
        "well": row.takes_tasks,
        "closed": closed_why(row),
        **(_claims(row) if row.claims and allowed_everywhere(request.user, Action.NODE_ADD) else {}),
        "cures": list(filter(None, [stuck_cure(row), out_cure(row) if row.out_since else ""])),
        "to_put_back": _to_put_back(row, load) if allowed_everywhere(request.user, Action.NODE_SET_INTENT) else [],
        "back_form": PutBackForm(auto_id=BACK_ID),
        "may_give_up": (
            allowed_everywhere(request.user, Action.NODE_SET_INTENT) and node_silent_long(row, timezone.now())
        ),
        "give_up_form": GiveUpForm(auto_id="give-up-%s"),
        "gpus": _gpu_lines(load, sight),
        "tasks": [_task_line(task, sight, drain) for task in tasks],
        "cpu_running": _without_gpus(tasks, load),
        "parks": {"mb": row.inventory.get("park_mb", 0), "taken_mb": node_parked_mb(row), "why_not": cannot_park(row)},
        "drain": drain,
        "largest": node_largest(row, names=allowed_everywhere(request.user, Action.ALERT_READ)),
        "strangers": strangers,
        "stranger_form": StrangerForm(auto_id="stranger-%s"),
        "may_stop_strangers": (
            not all(one.stopped_by for one in strangers) and allowed_everywhere(request.user, Action.NODE_SET_INTENT)
        ),
        "storages": storages_of_node(node=row, user=request.user),
        "listeners": node_listeners(row) if allowed_everywhere(request.user, Action.NODE_SET_INTENT) else [],
        "events": node_events(node=row),
        "moves": _moves(row) if allowed_everywhere(request.user, Action.NODE_SET_INTENT) else [],
        "intent_form": IntentForm(),
        "may_add": allowed_everywhere(request.user, Action.NODE_ADD),
        "may_remove": allowed_everywhere(request.user, Action.NODE_REMOVE),
        "may_configure": allowed_everywhere(request.user, Action.CLUSTER_CONFIGURE),
        **more,
    }
    page = "cluster/parts/node.html" if request.htmx else "cluster/node.html"
    return render(request, page, context, status=status)


def _task_line(task: NodeTask, sight: JobSight, drain: Drain | None) -> TaskLine:
    known = sight.covers(user_id=task.user_id, vc_id=task.vc_id)
    return TaskLine(task, known, task.gone_by(drain.asked_at) if drain else None)


def _gpu_lines(load: NodeLoad, sight: JobSight) -> list[GpuLine]:
    live = gpus_live(nodes=[load.node.name])
    return [GpuLine(place, live.get((load.node.name, place.gpu.uuid)), _known(place, sight)) for place in load.gpus]


def _known(place: GpuPlace, sight: JobSight) -> bool:
    holder = place.holder
    return holder is not None and sight.covers(user_id=holder.user_id, vc_id=holder.vc_id)


def _without_gpus(tasks: list[NodeTask], load: NodeLoad) -> int:
    """How many of these tasks have none of its GPUs, lent ones of parked tasks included."""
    holders = [place.holder for place in load.gpus if place.holder]
    holding = {(holder.job_id, holder.role, holder.index) for holder in holders}
    running = (task for task in tasks if task.parked_at is None)
    return sum((task.job_id, task.role, task.number) not in holding for task in running)


def _moves(row: Node) -> list[NodeIntent]:
    return [intent for intent in NodeIntent if intent in INTENT_MOVES[row.intent]]


@post_view
def node_intent(request: PageRequest, name: str) -> HttpResponse:
    """Opens, cordons or drains a node."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_SET_INTENT)
    form = IntentForm(request.POST)
    if not form.is_valid():
        return _node_page(request, node, intent_form=form, status=400)
    try:
        node_set_intent(node=node, **form.cleaned_data, **by(request))
    except Conflict as conflict:
        form.add_error("intent", conflict.detail)
        return _node_page(request, node, intent_form=form, status=409)
    return redirect("node", name=name)


def _claims(row: Node) -> dict[str, Any]:
    """Its claims, for who may accept them."""
    words, mounts = (offer_words(row.claims), storages_exported()) if row.pending else ([], [])
    return {"claims": words, "mounts": mounts, "grown": growth_why(row), "claims_told": json.dumps(row.claims)}


@post_view
def node_accepted(request: PageRequest, name: str) -> HttpResponse:
    """Accepts the claims that the page showed."""
    node = node_get(user=request.user, name=name)
    node_add_right(user=request.user)
    try:
        shown = json.loads(request.POST.get("claims", ""))
    except ValueError:
        shown = None
    # Only asked for a pending node.
    cpu_tasks = "cpu_tasks" in request.POST if node.pending else None
    actor, now = request.user.username, timezone.now()
    with refusals_told(request):
        node_accept(node=node, claims=offer_checked(shown), cpu_tasks=cpu_tasks, actor=actor, now=now)
        messages.success(request, _("Accepted: it counts with the next report."))
    return redirect("node", name=name)


@post_view
def node_cpu_tasks(request: PageRequest, name: str) -> HttpResponse:
    """Sets whether tasks without GPUs may be placed on a node."""
    node = node_get(user=request.user, name=name)
    node_add_right(user=request.user)
    cpu_tasks = request.POST.get("cpu_tasks") == "yes"
    with refusals_told(request):
        node_set_cpu_tasks(node=node, cpu_tasks=cpu_tasks, **by(request))
        words = _("Tasks without GPUs may be placed on %(node)s.")
        if not cpu_tasks:
            words = _("No more tasks without GPUs are placed on %(node)s; those that run there go on.")
        messages.success(request, words % {"node": node.name})
    return redirect("node", name=name)


def _to_put_back(row: Node, load: NodeLoad) -> list[str]:
    """Names of what an administrator may put back."""
    gpus = [f"GPU {place.gpu.index}" for place in load.gpus if place.gpu.fault_of_node]
    return gpus + ([_("the node itself")] if row.trials else [])


@post_view
def node_back(request: PageRequest, name: str) -> HttpResponse:
    """Puts back GPUs fenced off by the node's reports, and the node if it is out."""
    node = node_with_right(user=request.user, name=name, action=Action.NODE_SET_INTENT)
    form = PutBackForm(request.POST, auto_id=BACK_ID)
    if not form.is_valid():
        return _node_page(request, node, back_form=form, status=400)
    try:
        node_put_back(node=node, **form.cleaned_data, **by(request))
    except Conflict as conflict:
        form.add_error(None, conflict.detail)
        return _node_page(request, node, back_form=form, status=409)
    messages.success(request, _("Put back: tasks are placed there again."))
    return redirect("node", name=name)


@post_view
def node_topology(request: PageRequest, name: str) -> HttpResponse:
    """Takes a node's topology anew. It needs no reason; a typed one is kept if it cannot be done."""
    node = node_get(user=request.user, name=name)
    cluster_right(user=request.user)
    try:
        topology_take(node=node, **by(request))
    except Conflict as conflict:
        form = IntentForm({**request.POST.dict(), "intent": node.intent})
        form.add_error("intent", conflict.detail)
        return _node_page(request, node, intent_form=form, status=409)
    messages.success(request, _("The topology of %(node)s is taken anew.") % {"node": node.name})
    return redirect("node", name=name)

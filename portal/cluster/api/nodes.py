"""REST: nodes, GPUs and cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import User
from portal.accounts.rest import ApiView
from portal.accounts.rights import Action, allowed_everywhere
from portal.cluster.api.answers import CellTypeAnswer, NodeAnswer, SkuAnswer
from portal.cluster.api.requests import NodeFilter
from portal.cluster.selectors.holders import Holder
from portal.cluster.selectors.loads import GpuPlace, NodeLoad, node_loads
from portal.cluster.services.topology import topology_take
from portal.common.pagination import ByName
from portal.common.serializers import Body, Text, Whole
from portal.hardware.acceptance import offer_checked
from portal.hardware.outages import closed_why
from portal.hardware.selectors.unknown_containers import node_strangers
from portal.hardware.services.fences import node_put_back
from portal.hardware.services.nodes import node_set_intent
from portal.hardware.services.prices import sku_set_price, sku_set_share
from portal.hardware.states import NodeIntent
from portal.joining.api.answers import JoiningAnswer
from portal.joining.services.acceptance import node_accept, node_set_cpu_tasks
from portal.joining.services.joining import Joining, agent_environment, node_new_key, node_register, redis_authority
from portal.teams.selectors.details import cell_types
from portal.teams.selectors.shares import sku_totals
from portal.teams.selectors.visible import (
    JobSight,
    cluster_right,
    job_sight,
    node_add_right,
    node_get,
    node_restrict,
    node_with_right,
)


class IntentBody(Body):
    intent = serializers.ChoiceField(NodeIntent.choices)
    reason = Text(max_length=500, allow_blank=True, default="")


class PutBackBody(Body):
    gpus = serializers.ListField(
        child=Text(max_length=80), max_length=64, default=list, help_text="only these by UUID; empty: all, and the node"
    )
    reason = Text(max_length=500, help_text="what was done, or why it is no matter")


class JoiningBody(Body):
    name = Text(max_length=63, help_text="small letters, digits, dots and dashes, as its agent is told it")
    public_key = Text(
        max_length=64, allow_blank=True, default="",
        help_text="of a server that made its own key (`python -m nodes key`); empty: one is made here",
    )  # fmt: skip
    accept = serializers.BooleanField(
        default=False, help_text="what its first report says is accepted unseen: whoever has its key gets jobs"
    )
    cpu_tasks = serializers.BooleanField(
        default=False,
        help_text="with `accept`: tasks without GPUs of every virtual cluster, with their secrets, may run there, too",
    )


class AcceptBody(Body):
    claims = serializers.JSONField(
        default=None,
        allow_null=True,
        help_text="what is accepted, as the node's answer told it; null: what it claims now",
    )
    cpu_tasks = serializers.BooleanField(
        default=None,
        allow_null=True,
        help_text="whether tasks without GPUs of every virtual cluster, with their secrets, may run there; null: it "
        "stays as the node's answer tells it, of a pending node true unless a configuration said otherwise",
    )


class CpuTasksBody(Body):
    cpu_tasks = serializers.BooleanField(help_text="tasks without GPUs of every virtual cluster may be placed there")


class PriceBody(Body):
    price = serializers.DecimalField(
        max_digits=10, decimal_places=4, min_value=0, allow_null=True,
        help_text="of one GPU for one hour, in the portal's currency; null: none is told",
    )  # fmt: skip


class ShareBody(Body):
    cpu_milli = Whole(min_value=1, max_value=2**31 - 1, help_text="CPU with one GPU, in thousandths of a core")
    memory_mb = Whole(min_value=1, max_value=2**31 - 1, help_text="memory with one GPU")


class NodesView(ApiView):
    """The nodes."""

    problems = (409,)
    pagination_class = ByName
    filterset_class = NodeFilter
    orders = ("intent", "health", "rack")

    @extend_schema(operation_id="node_list", responses=NodeAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Each node with its state, its GPUs and who holds them."""
        told = _telling(self.user)
        rows = node_restrict(user=self.user).select_related("sku", "shape").defer("inventory", "storages")
        return self.page(rows, NodeAnswer, lambda nodes: [told(load) for load in node_loads(nodes=nodes)])

    @extend_schema(operation_id="node_add", request=JoiningBody, responses={201: JoiningAnswer})
    def post(self, request: Request) -> Response:
        """Registers a server, and makes its key unless it has its own. The key is told in this answer alone. 409 where
        the name has another key. For administrators."""
        node_add_right(user=self.user)
        body = self.body(JoiningBody)
        made = node_register(**body, **self.by)
        return Response(_joining(made), status=201)


class NodeView(ApiView):
    """One node."""

    problems = (409,)

    @extend_schema(operation_id="node", responses=NodeAnswer)
    def get(self, request: Request, name: str) -> Response:
        """Its state, its GPUs and who holds them."""
        return node_answer(user=self.user, name=name)

    @extend_schema(operation_id="node_set_intent", request=IntentBody, responses=NodeAnswer)
    def patch(self, request: Request, name: str) -> Response:
        """What is wanted of the node: `open`, `cordoned` (no new tasks) or `draining` (also move the running ones
        away). For administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_SET_INTENT)
        body = self.body(IntentBody)
        actor = self.user.username
        node_set_intent(node=node, intent=body["intent"], reason=body["reason"], actor=actor, now=timezone.now())
        return node_answer(user=self.user, name=name)


class AcceptView(ApiView):
    """What a node claims."""

    problems = (409,)

    @extend_schema(operation_id="node_accept", request=AcceptBody, responses=NodeAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Accepts a server that has joined, or what an accepted one claims beyond what was accepted; it counts with
        its next report. Send `claims` as they were told, so that nothing counts that it has claimed since. 409 where
        there is nothing to accept. For administrators."""
        node = node_get(user=self.user, name=name)
        node_add_right(user=self.user)
        body = self.body(AcceptBody)
        claims = None if body["claims"] is None else offer_checked(body["claims"])
        actor, cpu_tasks = self.user.username, body["cpu_tasks"]
        node_accept(node=node, claims=claims, cpu_tasks=cpu_tasks, actor=actor, now=timezone.now())
        return node_answer(user=self.user, name=name)


class CpuTasksView(ApiView):
    """Whether tasks without GPUs may run on a node."""

    problems = (409,)

    @extend_schema(operation_id="node_set_cpu_tasks", request=CpuTasksBody, responses=NodeAnswer)
    def put(self, request: Request, name: str) -> Response:
        """Says whether tasks without GPUs may be placed on the node from now on; those that run there go on. 409 for a
        pending node, of which it is said when it is accepted. For administrators."""
        node = node_get(user=self.user, name=name)
        node_add_right(user=self.user)
        node_set_cpu_tasks(node=node, **self.body(CpuTasksBody), **self.by)
        return node_answer(user=self.user, name=name)


class NodeKeyView(ApiView):
    """The key of a node."""

    problems = (409,)

    @extend_schema(operation_id="node_new_key", request=None, responses={201: JoiningAnswer})
    def post(self, request: Request, name: str) -> Response:
        """Makes the node another key, which is told in this answer alone; the old one is refused from then on. 409
        while tasks are on it. For administrators."""
        node = node_get(user=self.user, name=name)
        node_add_right(user=self.user)
        return Response(_joining(node_new_key(node=node, **self.by)), status=201)


class PutBackView(ApiView):
    """What was fenced off for a fault."""

    problems = (409,)

    @extend_schema(operation_id="node_put_back", request=PutBackBody, responses=NodeAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Gives GPUs that are fenced off for what their node said of them back to the scheduler, and the node where it
        takes nothing new after failures at the start of several users' tasks; a reason is needed. What the node still
        says then fences no more, until it says something else. 409 where there is nothing to put back. For
        administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_SET_INTENT)
        body = self.body(PutBackBody)
        node_put_back(node=node, gpus=body["gpus"] or None, reason=body["reason"], **self.by)
        return node_answer(user=self.user, name=name)


def _joining(made: Joining) -> dict[str, Any]:
    name = made.node.name
    told = {"name": name, "public_key": made.node.public_key, "key": made.key or None}
    environment = agent_environment(node=made.node, secret=True)
    return JoiningAnswer(told | {"environment": environment, "redis_ca": redis_authority() or None}).data


class TopologyView(ApiView):
    """The accepted topology of a node."""

    problems = (409,)

    @extend_schema(operation_id="node_take_topology", request=None, responses=NodeAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Takes the node's topology anew, from what it reports now. 409 when a GPU in use would lose its place, or the
        quotas could not be carved out any more. For administrators."""
        node = node_get(user=self.user, name=name)
        cluster_right(user=self.user)
        topology_take(node=node, **self.by)
        return node_answer(user=self.user, name=name)


class CellTypesView(ApiView):
    """The cell types."""

    pagination_class = None

    @extend_schema(operation_id="cell_type_list", responses=CellTypeAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Every unit of topology that there is: GPUs, groups, nodes, racks."""
        return self.listed(cell_types(), CellTypeAnswer)


class SkusView(ApiView):
    """The hardware kinds."""

    pagination_class = None

    @extend_schema(operation_id="sku_list", responses=SkuAnswer(many=True))
    def get(self, request: Request) -> Response:
        """How many GPUs of each kind there are, held and free, in the whole cluster."""
        return self.listed(sku_totals(), SkuAnswer)


class SkuView(ApiView):
    """One hardware kind."""

    @extend_schema(operation_id="sku_set_price", request=PriceBody, responses=SkuAnswer)
    def patch(self, request: Request, name: str) -> Response:
        """Sets what one GPU of this kind costs for one hour; usage reports count with it from then on, for the past as
        well. For administrators."""
        cluster_right(user=self.user)
        sku = sku_set_price(name=name, **self.body(PriceBody), **self.by)
        return Response(SkuAnswer(next(one for one in sku_totals() if one.sku == sku.name)).data)


class SkuShareView(ApiView):
    """What goes with a GPU of a kind."""

    @extend_schema(operation_id="sku_set_share", request=ShareBody, responses=SkuAnswer)
    def put(self, request: Request, name: str) -> Response:
        """Sets what CPU and memory go with one GPU of this kind: what forms offer and OpenPAI's API tells. What jobs
        may ask for stays as it is. For administrators."""
        cluster_right(user=self.user)
        sku = sku_set_share(name=name, **self.body(ShareBody), **self.by)
        return Response(SkuAnswer(next(one for one in sku_totals() if one.sku == sku.name)).data)


_NODE_COLUMNS = (
    *("name", "rack", "intent", "intent_reason", "health", "health_reason", "clock_fault", "cpu_milli", "memory_mb"),
    "takes_tasks",
    *("runtime", "simulated", "address", "last_report_at", "pending", "cpu_tasks", "claims"),
)


def node_answer(*, user: User, name: str) -> Response:
    """The node as this user may know it now."""
    load = node_loads(nodes=[node_get(user=user, name=name)])[0]
    return Response(NodeAnswer(_telling(user)(load)).data)


def _telling(user: User) -> Callable[[NodeLoad], dict[str, Any]]:
    """What a node is told as to this user: what it claims only to who may accept it."""
    sight, accepts = job_sight(user=user), allowed_everywhere(user, Action.NODE_ADD)
    return lambda load: _node(load, sight) | ({} if accepts else {"claims": {}})


def _node(load: NodeLoad, sight: JobSight) -> dict[str, Any]:
    node = load.node
    return {
        **{name: getattr(node, name) for name in _NODE_COLUMNS},
        "sku": node.sku.name if node.sku else None,
        "closed_reason": " ".join(closed_why(node)),
        "cell_type": node.shape.name if node.shape else None,
        "cpu_milli_held": load.cpu_milli_held,
        "memory_mb_held": load.memory_mb_held,
        "gpus": [_gpu(place, sight) for place in load.gpus],
        "unknown_containers": [one._asdict() for one in node_strangers(node)],
    }


def _gpu(place: GpuPlace, sight: JobSight) -> dict[str, Any]:
    gpu = place.gpu
    return {
        **{
            name: getattr(gpu, name)
            for name in ("index", "uuid", "sku", "model", "memory_mb", "usable", "fault", "told")
        },
        "holder": None if place.holder is None else holder_told(place.holder, sight),
    }


def holder_told(holder: Holder, sight: JobSight) -> dict[str, Any]:
    """Who holds a GPU, as somebody with this sight may know it."""
    known = sight.covers(user_id=holder.user_id, vc_id=holder.vc_id)
    return {
        "vc": holder.vc,
        "user": holder.username,
        "standing": holder.standing,
        "job": holder.job_id if known else None,
        "label": holder.label if known else None,
        "role": holder.role if known else None,
        "index": holder.index if known else None,
    }

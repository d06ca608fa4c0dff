"""REST: virtual clusters and nodes."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import (
    GpuPlace,
    Holder,
    JobSight,
    NodeLoad,
    job_sight,
    node_get,
    node_loads,
    node_restrict,
    node_with_right,
    sku_totals,
    vc_get,
    vc_restrict,
    vc_roles,
    vc_shares,
)
from portal.clusters.services import node_set_intent
from portal.clusters.states import NodeHealth, NodeIntent, VcRole
from portal.common.pagination import ByName
from portal.common.serializers import Answer, Body, Text


class ShareAnswer(serializers.Serializer[Any]):
    """A virtual cluster's GPUs of one SKU."""

    sku = serializers.CharField()
    quota = serializers.IntegerField(help_text="guaranteed to it")
    guaranteed = serializers.IntegerField(help_text="in use inside the quota")
    borrowed = serializers.IntegerField(help_text="in use beyond the quota, while others leave them idle")
    free = serializers.IntegerField(help_text="of the quota, not in use")


class VirtualClusterAnswer(Answer):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(VcRole.choices, allow_null=True, help_text="of whoever asks; null: no member")
    gpus = ShareAnswer(many=True)


class HolderAnswer(serializers.Serializer[Any]):
    """Who holds a GPU. Which job it is stands there for those who may see the job."""

    vc = serializers.CharField()
    user = serializers.CharField()
    standing = serializers.ChoiceField(["guaranteed", "borrowed"])
    job = serializers.IntegerField(allow_null=True, help_text="the job's id")
    label = serializers.CharField(allow_null=True, help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    role = serializers.CharField(allow_null=True)
    index = serializers.IntegerField(allow_null=True)


class GpuAnswer(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    sku = serializers.CharField()
    model = serializers.CharField()
    memory_mb = serializers.IntegerField()
    usable = serializers.BooleanField(help_text="tasks may be placed on it")
    fault = serializers.CharField(allow_blank=True, help_text="why not")
    holder = HolderAnswer(allow_null=True)


class NodeAnswer(Answer):
    name = serializers.CharField()
    intent = serializers.ChoiceField(NodeIntent.choices, help_text="what an administrator wants of it")
    intent_reason = Text(allow_blank=True)
    health = serializers.ChoiceField(NodeHealth.choices, help_text="what was found")
    health_reason = Text(allow_blank=True)
    clock_fault = Text(allow_blank=True, help_text="empty while its clock is within 5 s of the portal's")
    sku = serializers.CharField(allow_null=True)
    cpu_milli = serializers.IntegerField(help_text="thousandths of a core")
    cpu_milli_held = serializers.IntegerField()
    memory_mb = serializers.IntegerField()
    memory_mb_held = serializers.IntegerField()
    runtime = serializers.CharField(allow_blank=True)
    simulated = serializers.BooleanField(help_text="its GPUs are simulated")
    address = serializers.CharField(allow_blank=True)
    last_report_at = serializers.DateTimeField(allow_null=True)
    gpus = GpuAnswer(many=True)


class IntentBody(Body):
    intent = serializers.ChoiceField(NodeIntent.choices)
    reason = Text(max_length=500, allow_blank=True, default="")


class SkuAnswer(serializers.Serializer[Any]):
    """A hardware kind, counted in GPUs of the whole cluster."""

    sku = serializers.CharField()
    gpu_model = serializers.CharField()
    memory_mb = serializers.IntegerField(help_text="of one GPU")
    gpus = serializers.IntegerField(help_text="that are there")
    usable = serializers.IntegerField(help_text="of these, on open and healthy nodes and without fault")
    held = serializers.IntegerField(help_text="by tasks")
    free = serializers.IntegerField(help_text="usable and not held")


class VirtualClustersView(ApiView):
    """The virtual clusters."""

    pagination_class = ByName

    @extend_schema(operation_id="virtual_cluster_list", responses=VirtualClusterAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Each virtual cluster with its quota and what of it is in use, by SKU."""
        return self.page(vc_restrict(user=self.user), VirtualClusterAnswer, self._described)

    def _described(self, vcs: list[VirtualCluster]) -> list[dict[str, Any]]:
        shares, roles = vc_shares(vcs=vcs), vc_roles(user=self.user)
        return [_vc(vc, shares[vc.pk], roles.get(vc.pk)) for vc in vcs]


class VirtualClusterView(ApiView):
    """One virtual cluster."""

    @extend_schema(operation_id="virtual_cluster", responses=VirtualClusterAnswer)
    def get(self, request: Request, name: str) -> Response:
        """Its quota and what of it is in use, by SKU."""
        vc = vc_get(user=self.user, name=name)
        shares, roles = vc_shares(vcs=[vc]), vc_roles(user=self.user)
        return Response(VirtualClusterAnswer(_vc(vc, shares[vc.pk], roles.get(vc.pk))).data)


def _vc(vc: VirtualCluster, shares: object, role: str | None) -> dict[str, Any]:
    return {"name": vc.name, "description": vc.description, "role": role, "gpus": shares}


class NodesView(ApiView):
    """The nodes."""

    pagination_class = ByName

    @extend_schema(operation_id="node_list", responses=NodeAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Each node with its state, its GPUs and who holds them."""
        sight = job_sight(user=self.user)
        rows = node_restrict(user=self.user).select_related("sku")
        return self.page(rows, NodeAnswer, lambda nodes: [_node(load, sight) for load in node_loads(nodes=nodes)])


class NodeView(ApiView):
    """One node."""

    problems = (409,)

    @extend_schema(operation_id="node", responses=NodeAnswer)
    def get(self, request: Request, name: str) -> Response:
        """Its state, its GPUs and who holds them."""
        return self._answer(name)

    @extend_schema(operation_id="node_set_intent", request=IntentBody, responses=NodeAnswer)
    def patch(self, request: Request, name: str) -> Response:
        """What is wanted of the node: `open`, `cordoned` (no new tasks) or `draining` (also move the running ones
        away). For administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_SET_INTENT)
        body = self.body(IntentBody)
        actor = self.user.username
        node_set_intent(node=node, intent=body["intent"], reason=body["reason"], actor=actor, now=timezone.now())
        return self._answer(name)

    def _answer(self, name: str) -> Response:
        load = node_loads(nodes=[node_get(user=self.user, name=name)])[0]
        return Response(NodeAnswer(_node(load, job_sight(user=self.user))).data)


class SkusView(ApiView):
    """The hardware kinds."""

    pagination_class = None

    @extend_schema(operation_id="sku_list", responses=SkuAnswer(many=True))
    def get(self, request: Request) -> Response:
        """How many GPUs of each kind there are, held and free, in the whole cluster."""
        return Response(SkuAnswer(sku_totals(), many=True).data)


_NODE_COLUMNS = (
    *("name", "intent", "intent_reason", "health", "health_reason", "clock_fault", "cpu_milli", "memory_mb"),
    *("runtime", "simulated", "address", "last_report_at"),
)


def _node(load: NodeLoad, sight: JobSight) -> dict[str, Any]:
    node = load.node
    return {
        **{name: getattr(node, name) for name in _NODE_COLUMNS},
        "sku": node.sku.name if node.sku else None,
        "cpu_milli_held": load.cpu_milli_held,
        "memory_mb_held": load.memory_mb_held,
        "gpus": [_gpu(place, sight) for place in load.gpus],
    }


def _gpu(place: GpuPlace, sight: JobSight) -> dict[str, Any]:
    gpu = place.gpu
    return {
        **{name: getattr(gpu, name) for name in ("index", "uuid", "model", "memory_mb", "usable", "fault")},
        "sku": gpu.cell_type.sku.name,
        "holder": None if place.holder is None else _holder(place.holder, sight),
    }


def _holder(holder: Holder, sight: JobSight) -> dict[str, Any]:
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

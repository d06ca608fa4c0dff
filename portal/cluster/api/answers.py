"""What the API says of virtual clusters and nodes."""

from __future__ import annotations

from rest_framework import serializers

from portal.common.serializers import Answer, Ready, Text
from portal.common.shapes import Shape
from portal.hardware.states import NodeHealth, NodeIntent


class HolderAnswer(Shape):
    """Who holds a GPU. Which job it is stands there for those who may see the job."""

    vc = serializers.CharField()
    user = serializers.CharField()
    standing = serializers.ChoiceField(["guaranteed", "borrowed"])
    job = serializers.IntegerField(allow_null=True, help_text="the job's id")
    label = serializers.CharField(allow_null=True, help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    role = serializers.CharField(allow_null=True)
    index = serializers.IntegerField(allow_null=True)


class GpuAnswer(Ready):
    """A GPU of a node."""

    index = serializers.IntegerField()
    uuid = serializers.CharField()
    sku = serializers.CharField()
    model = serializers.CharField()
    memory_mb = serializers.IntegerField()
    usable = serializers.BooleanField(help_text="tasks may be placed on it")
    fault = serializers.CharField(allow_blank=True, help_text="why not")
    told = serializers.CharField(allow_blank=True, help_text="what its node says is wrong with it now")
    holder = HolderAnswer(allow_null=True)


class UnknownContainerAnswer(Answer):
    """A container on a node that this portal knows nothing of: it was restored to before it began, or is not the one
    that had it started."""

    attempt = serializers.CharField(help_text="its task attempt, as the node calls it")
    gpus = serializers.ListField(child=serializers.CharField(), help_text="UUIDs of what it holds, fenced meanwhile")
    folder = serializers.CharField(allow_blank=True, help_text="its job folder on the node; empty where not known")
    seen_at = serializers.DateTimeField(help_text="when it was first reported")
    stopped_by = serializers.CharField(allow_null=True, help_text="who asked for its end")


class NodeAnswer(Answer):
    name = serializers.CharField()
    intent = serializers.ChoiceField(NodeIntent.choices, help_text="what an administrator wants of it")
    intent_reason = Text(allow_blank=True)
    health = serializers.ChoiceField(NodeHealth.choices, help_text="what was found")
    health_reason = Text(allow_blank=True)
    takes_tasks = serializers.BooleanField(help_text="new tasks may be placed on it")
    closed_reason = Text(
        allow_blank=True,
        help_text="what was found that closes it: failures at start, a full disk, a container engine that does not "
        "answer, orders that are not taken",
    )
    clock_fault = Text(allow_blank=True, help_text="empty while its clock is within 5 s of the portal's")
    sku = serializers.CharField(allow_null=True)
    cell_type = serializers.CharField(allow_null=True, help_text="of the whole node, as its topology was taken")
    rack = serializers.CharField(allow_blank=True, help_text="label; alike nodes with one label are a cell")
    cpu_milli = serializers.IntegerField(help_text="thousandths of a core")
    cpu_milli_held = serializers.IntegerField()
    memory_mb = serializers.IntegerField()
    memory_mb_held = serializers.IntegerField()
    runtime = serializers.CharField(allow_blank=True)
    simulated = serializers.BooleanField(help_text="its GPUs are simulated")
    address = serializers.CharField(allow_blank=True)
    last_report_at = serializers.DateTimeField(allow_null=True)
    pending = serializers.BooleanField(help_text="nobody has accepted it yet: it gets nothing")
    cpu_tasks = serializers.BooleanField(
        help_text="tasks without GPUs may be placed on it; on a pending one once it is accepted"
    )
    claims = serializers.JSONField(
        help_text="what it says of itself beyond what was accepted, of a pending one all of it; empty: nothing, or "
        "not for you to accept"
    )
    gpus = GpuAnswer(many=True)
    unknown_containers = UnknownContainerAnswer(many=True)


class SkuAnswer(Answer):
    """A hardware kind, counted in GPUs of the whole cluster."""

    sku = serializers.CharField()
    gpu_model = serializers.CharField()
    memory_mb = serializers.IntegerField(help_text="of one GPU")
    price = serializers.DecimalField(
        max_digits=10, decimal_places=4, allow_null=True, help_text="of one GPU for one hour; null: none is told"
    )
    share_cpu_milli = serializers.IntegerField(help_text="CPU that goes with one GPU, in thousandths of a core")
    share_memory_mb = serializers.IntegerField(help_text="memory that goes with one GPU")
    gpus = serializers.IntegerField(help_text="that are there")
    usable = serializers.IntegerField(help_text="of these, on open and healthy nodes and without fault")
    held = serializers.IntegerField(help_text="by tasks")
    free = serializers.IntegerField(help_text="usable and not held")


class CellTypeAnswer(Answer):
    """A unit of topology, of which quotas can be made."""

    name = serializers.CharField(source="row.name")
    sku = serializers.CharField(source="row.sku.name")
    child = serializers.CharField(
        source="row.child.name", allow_null=True, default=None, help_text="what it is made of"
    )
    child_count = serializers.IntegerField(source="row.child_count", help_text="of how many")
    is_node_level = serializers.BooleanField(source="row.is_node_level", help_text="it is a whole node")
    gpus = serializers.IntegerField(help_text="in one such cell")
    chains = serializers.ListField(child=serializers.CharField(), help_text="where there are such cells")

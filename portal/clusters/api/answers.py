"""What the API says of virtual clusters and nodes."""

from __future__ import annotations

from rest_framework import serializers

from portal.clusters.states import Borrow, NodeHealth, NodeIntent, VcRole
from portal.common.priorities import PRIORITY_CLASSES
from portal.common.serializers import Answer, Ready, Text
from portal.common.shapes import Shape

CLASSES = list(PRIORITY_CLASSES)
PROFILES = ["user", "root"]


class ShareAnswer(Shape):
    """A virtual cluster's GPUs of one SKU."""

    sku = serializers.CharField()
    quota = serializers.IntegerField(help_text="guaranteed to it")
    guaranteed = serializers.IntegerField(help_text="in use inside the quota")
    borrowed = serializers.IntegerField(help_text="in use beyond the quota, while others leave them idle")
    free = serializers.IntegerField(
        source="unused", help_text="unused: of the quota, not in use by it; not all of these may be had at once"
    )
    lent = serializers.IntegerField(help_text="of these, on loan to others, who give them back when they are wanted")
    out_of_service = serializers.IntegerField(
        source="out",
        help_text="of these, at least so many cannot be had now: their servers take no tasks, or their GPUs are sick",
    )


class VirtualClusterAnswer(Answer):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(VcRole.choices, allow_null=True, help_text="of whoever asks; null: no member")
    gpus = ShareAnswer(many=True)


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


class JoiningAnswer(Answer):
    """What a server needs to join."""

    whole = True
    name = serializers.CharField()
    public_key = serializers.CharField(help_text="by which its reports are known")
    key = serializers.CharField(
        allow_null=True, help_text="its private key, for `node.key` in its agent's folder; null: it has its own"
    )
    environment = serializers.DictField(
        child=serializers.CharField(),
        help_text="its agent's variables; `PASSWORD` in an address stands for what nobody is told",
    )
    redis_ca = serializers.CharField(
        allow_null=True, help_text="certificates (PEM) of who signed that of Redis; null: an authority that all know"
    )


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


class LoanLimitAnswer(Shape):
    """Limits of lending for one SKU, in GPUs; null: no limit."""

    sku = serializers.CharField(source="sku.name")
    max_borrow = serializers.IntegerField(allow_null=True, help_text="that it may hold on loan")
    max_lend = serializers.IntegerField(allow_null=True, help_text="of its idle ones that it lends")


class FirmRightAnswer(Shape):
    """A user's right to jobs that are never preempted."""

    user = serializers.CharField(source="user.username")
    gpus = serializers.IntegerField()
    last_day = serializers.DateField()


class QuotaLineAnswer(Shape):
    """Cells of one type, guaranteed to a virtual cluster."""

    vc = serializers.CharField()
    cell_type = serializers.CharField()
    chain = serializers.CharField(allow_blank=True, help_text="empty: that of the servers that name none")
    count = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="of these cells together")


class DoomedAnswer(Shape):
    """Cells of a quota that could not be had now."""

    chain = serializers.CharField()
    cell_type = serializers.CharField()
    cells = serializers.IntegerField()


class VirtualClusterDetailAnswer(VirtualClusterAnswer):
    """A virtual cluster with its quota and its rules."""

    quota = QuotaLineAnswer(many=True)
    pinned_cells = serializers.ListField(child=serializers.CharField(), help_text="physical cells of its own, by name")
    weight = serializers.IntegerField(help_text="its share of idle capacity beside others'")
    user_factor = serializers.FloatField(allow_null=True, help_text="times the quota: what one user may hold")
    user_gpus = serializers.IntegerField(allow_null=True, help_text="GPUs that one user may hold")
    class_gpus = serializers.IntegerField(allow_null=True, help_text="GPUs of jobs of class prod and above together")
    default_borrow = serializers.ChoiceField(Borrow.choices, help_text="for jobs that say nothing about it")
    member_class = serializers.ChoiceField(CLASSES, help_text="highest priority class of members")
    lead_class = serializers.ChoiceField(CLASSES, help_text="highest priority class of leads")
    log_quota_gb = serializers.IntegerField(
        allow_null=True,
        help_text="GB of logs that are kept of its jobs that are over; 0: all; null: as BERTH_LOG_QUOTA_GB says",
    )
    default_profile = serializers.ChoiceField(
        PROFILES,
        help_text="as whom containers run: user: always as the job's user; root: as root, or as the user where the job "
        "asks for that",
    )
    host_network = serializers.BooleanField(help_text="whether jobs of several tasks, which need it, are accepted")
    doomed = DoomedAnswer(many=True, help_text="cells of the quota that would have to sit on bad hardware now")
    loan_limits = LoanLimitAnswer(many=True)
    firm_rights = FirmRightAnswer(many=True)


class MemberAnswer(Answer):
    """Somebody in a virtual cluster: a user or a group."""

    id = serializers.IntegerField()
    user = serializers.CharField(source="user.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.name", allow_null=True, default=None)
    role = serializers.ChoiceField(VcRole.choices)


class UserShareAnswer(Answer):
    """A user's part of the quota of late, and jobs."""

    user = serializers.CharField()
    share = serializers.FloatField(
        allow_null=True,
        help_text="0: nothing, 1: all of the quota all of the time; older use weighs less; null: unknown",
    )
    running = serializers.IntegerField(help_text="jobs")
    waiting = serializers.IntegerField(help_text="jobs")


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

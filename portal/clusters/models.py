"""Virtual clusters with their quota, the hardware they are made of, and storages."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from portal.clusters.clocks import clock_fault
from portal.clusters.states import NodeHealth, NodeIntent, VcRole
from portal.common.models import EventRow

NAME = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z", "Letters, digits, dot, dash and underscore only.")


class Sku(models.Model):
    """A hardware kind: a GPU model with its share of CPU and memory."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    gpu_model = models.CharField(max_length=100)
    gpu_memory_mb = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField(help_text="CPU per GPU, in thousandths of a core")
    memory_mb = models.PositiveIntegerField(help_text="Memory per GPU")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class CellType(models.Model):
    """A unit of topology. A cell of this type is made of ``child_count`` equal cells of type ``child``;
    a leaf cell type (``child`` empty) is one GPU of ``sku`` and bears the SKU's name."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT, related_name="cell_types")
    child = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="parents")
    child_count = models.PositiveIntegerField(default=0)
    is_node_level = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(child__isnull=True, child_count=0) | Q(child__isnull=False, child_count__gte=1),
                name="cell_type_children_counted",
            )
        ]

    def __str__(self) -> str:
        return self.name


class VirtualCluster(models.Model):
    """A team's guaranteed share of the cluster."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    description = models.TextField(blank=True)
    default_profile = models.CharField(max_length=10, choices=[("user", "user"), ("root", "root")], default="root")
    host_network = models.BooleanField(default=True, help_text="Jobs of several tasks may use the host network")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class QuotaLine(models.Model):
    """``count`` cells of one type, guaranteed to a virtual cluster."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="quota")
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="quota")
    count = models.PositiveIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["vc", "cell_type"], name="quota_line_once")]

    def __str__(self) -> str:
        return f"{self.count} x {self.cell_type_id}"


class Membership(models.Model):
    """A user's or a group's role in a virtual cluster."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="memberships"
    )
    group = models.ForeignKey(Group, null=True, blank=True, on_delete=models.CASCADE, related_name="vc_memberships")
    role = models.CharField(max_length=10, choices=VcRole.choices, default=VcRole.MEMBER)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["vc", "user"], condition=Q(user__isnull=False), name="member_once"),
            models.UniqueConstraint(fields=["vc", "group"], condition=Q(group__isnull=False), name="group_once"),
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True) | Q(user__isnull=True, group__isnull=False),
                name="member_user_or_group",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id or self.group_id}: {self.role}"


class Node(models.Model):
    """A GPU server. ``generation`` grows with every change of what the node shall have; ``placement_version``
    with every placement on it, so that of two schedulers' decisions on one node only one is applied."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    public_key = models.CharField(max_length=64, help_text="Ed25519, base64: signs this node's reports")
    intent = models.CharField(max_length=10, choices=NodeIntent.choices, default=NodeIntent.OPEN)
    intent_reason = models.TextField(blank=True)
    health = models.CharField(max_length=10, choices=NodeHealth.choices, default=NodeHealth.UNKNOWN)
    health_reason = models.TextField(blank=True)
    generation = models.BigIntegerField(default=1)
    placement_version = models.BigIntegerField(default=0)
    sku = models.ForeignKey(Sku, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mb = models.PositiveIntegerField(default=0)
    address = models.CharField(max_length=64, blank=True)
    interface = models.CharField(max_length=32, blank=True)
    runtime = models.CharField(max_length=16, blank=True)
    simulated = models.BooleanField(default=False)
    port_first = models.PositiveIntegerField(default=20000)
    port_last = models.PositiveIntegerField(default=29999)
    storages = models.JSONField(default=list, blank=True, help_text="Roots that are mounted there")
    inventory = models.JSONField(default=dict, blank=True, help_text="As last reported, for people")
    boot = models.BigIntegerField(default=0)
    seq = models.BigIntegerField(default=0)
    clock_skew_ms = models.BigIntegerField(default=0, help_text="ahead of the portal's clock; negative: behind")
    last_report_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def clock_fault(self) -> str:
        """What is wrong with its clock; empty where nothing is."""
        return clock_fault(self.clock_skew_ms)


class Gpu(models.Model):
    """A GPU of a node: a leaf cell. Its address is ``<node>/<index>``."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80, unique=True)
    index = models.PositiveIntegerField()
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="gpus")
    model = models.CharField(max_length=100)
    memory_mb = models.PositiveIntegerField()
    details = models.JSONField(default=dict, blank=True, help_text="PCI address, NUMA node, groups, driver")
    present = models.BooleanField(default=True, help_text="False: was there and is not reported any more")
    fault = models.TextField(blank=True, help_text="Not empty: fenced off, and why")

    class Meta:
        ordering = ["node_id", "index"]
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], condition=Q(present=True), name="gpu_place_once")
        ]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"

    @property
    def usable(self) -> bool:
        """Whether tasks may be placed on it."""
        return self.present and not self.fault


class Storage(models.Model):
    """A folder tree that nodes mount. ``jobs``: here lie the job folders."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    kind = models.CharField(max_length=8, choices=[("path", "path"), ("nfs", "nfs")], default="path")
    root = models.CharField(max_length=500, help_text="path on every node that offers it")
    export = models.CharField(max_length=500, blank=True, help_text="nfs only: server:/export")
    read_only = models.BooleanField(default=False)
    per_user = models.BooleanField(default=False, help_text="each user sees only a folder of their own")
    must_be_mount = models.BooleanField(default=True)
    jobs = models.BooleanField(default=False)
    everyone = models.BooleanField(default=False)
    vcs = models.ManyToManyField(VirtualCluster, blank=True, related_name="storages")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["jobs"], condition=Q(jobs=True), name="one_storage_for_jobs")]

    def __str__(self) -> str:
        return self.name


class NodeEvent(EventRow):
    """What happened to a node."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")


class VcEvent(EventRow):
    """What happened to a virtual cluster."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="events")


class ReportsLane(models.Model):
    """One row: since when, without a gap, the portal has been taking reports in. A node's silence counts only
    from there (``node.md``: a portal, broker or database that was away loses no node)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    open_since = models.DateTimeField()
    last_pulse_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1) & Q(open_since__lte=F("last_pulse_at")), name="one_lane"),
        ]

    def __str__(self) -> str:
        return f"open since {self.open_since}"

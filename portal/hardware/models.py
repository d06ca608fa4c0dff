"""Hardware rows: SKUs, cell types, nodes with their GPUs, cells above and inside nodes."""

from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Case, F, Q, Value, When

from portal.common.models import EventRow
from portal.common.names import CELL_TYPE_LENGTH, NAME
from portal.common.sentence_field import SentenceField
from portal.hardware.agents import agent_fault
from portal.hardware.clocks import clock_fault
from portal.hardware.states import NodeHealth, NodeIntent


class Sku(models.Model):
    """A hardware kind: a GPU model with its share of CPU and memory."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    gpu_model = models.CharField(max_length=100)
    gpu_memory_mb = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField(help_text="CPU per GPU, in thousandths of a core")
    memory_mb = models.PositiveIntegerField(help_text="Memory per GPU")
    price = models.DecimalField(
        max_digits=10, decimal_places=4, null=True, blank=True, validators=[MinValueValidator(0)],
        help_text="of one GPU for one hour, in the portal's currency; empty: none is told",
    )  # fmt: skip

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class CellType(models.Model):
    """A level of the topology. A cell of this type consists of ``child_count`` equal cells of type ``child``; a leaf
    cell type (``child`` empty) is one GPU of ``sku`` and bears the SKU's name. ``derived``: made from what nodes
    reported rather than named by an administrator; deleted once unused."""

    name = models.CharField(max_length=CELL_TYPE_LENGTH, unique=True, validators=[NAME])
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT, related_name="cell_types")
    child = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="parents")
    child_count = models.PositiveIntegerField(default=0)
    is_node_level = models.BooleanField(default=False)
    derived = models.BooleanField(default=False)

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


RACK = "rack:"
"""Prefix of a rack cell's address; no node's name can begin so."""


class UpperCell(models.Model):
    """A cell above the nodes, such as a rack: its children are nodes, or other such cells."""

    address = models.CharField(max_length=200, unique=True)
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="upper_cells")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="children")

    class Meta:
        ordering = ["address"]

    def __str__(self) -> str:
        return self.address

    @property
    def label(self) -> str:
        """The name people use: a rack's own label."""
        return self.address.removeprefix(RACK)


class InUse(models.Manager["Node"]):
    """Nodes that were not removed."""

    def get_queryset(self) -> models.QuerySet[Node]:
        return super().get_queryset().filter(removed_at__isnull=True)


SILENT = Q(health=NodeHealth.HEALTHY) & ~Q(health_reason="")
"""Nodes without a report for too long, together with most others, so that none is given up. The next report clears it;
until then the node may be dead, and a new task there would only run into the preparation timeout."""


def takes_tasks(prefix: str = "") -> Q:
    """Filter for nodes (reached through ``prefix``) on which new tasks may be placed."""
    wanted: dict[str, object] = {"intent": NodeIntent.OPEN, "health": NodeHealth.HEALTHY, "health_reason": ""}
    wanted |= {"accepted__isnull": False}
    found = {"full_since__isnull": True, "out_since__isnull": True, "stuck_since__isnull": True}
    return Q(**{f"{prefix}{name}": value for name, value in (wanted | found).items()})


def intent_now() -> Case:
    """The effective intent: an open node that is pending, full, stuck, out after failures, or silent together with most
    others, counts as cordoned."""
    shut = Q(full_since__isnull=False) | Q(out_since__isnull=False) | Q(stuck_since__isnull=False) | SILENT
    shut |= Q(accepted__isnull=True)
    return Case(When(shut, intent=NodeIntent.OPEN, then=Value(str(NodeIntent.CORDONED))), default=F("intent"))


class Node(models.Model):
    """A GPU node. A removed one stays for the jobs that ran on it, its name is free again, and ``objects`` leaves it
    out. ``generation`` grows with every change of its orders; ``placement_version`` with every placement on it, so that
    of two schedulers' decisions about one node only one is applied.

    The topology is taken once and then fixed: ``shape`` is the node's cell type, ``slots`` the indices of its GPUs in
    tree order, ``rack`` the label it had. Later differences in reports are a matter of health, until an administrator
    takes the topology anew. ``chain``: type of the topmost cell, if a configuration gave the cells.

    These findings close it regardless of its intent: a full disk (``full_since``, until the node says otherwise), being
    unable to carry out anything (``stuck_since`` for ``stuck_cause``, in the node's ``stuck_words``, until it can), and
    start failures of several users' jobs (``out_since``, latest ``out_cause``). A node that is out is tried again at
    ``trial_at``; while ``out_since`` is empty and ``trials``, how often it was out in a row, is not 0, it is on trial
    since then. A healthy one with a ``health_reason`` is ``silent``. ``due`` is a generation that it was sent but has
    not taken, report after report, since ``due_since``; its reports have no gap since ``heard_since``.

    What it reports are claims (``portal.hardware.acceptance``). ``accepted`` is what an administrator has accepted,
    first at ``accepted_at``; None: the node is pending and gets nothing. ``claims`` is what it reports beyond that; for
    a pending node, everything. With ``accept_first`` its next report is accepted as it comes. Tasks without GPUs, which
    no quota ties to hardware, are placed on it only with ``cpu_tasks``, set by whoever accepts it; on a pending node it
    is the default for them.
    """

    name = models.CharField(max_length=64, validators=[NAME])
    public_key = models.CharField(
        max_length=64, blank=True, help_text="Ed25519, base64: signs this node's reports; empty: it has not joined yet"
    )
    intent = models.CharField(max_length=10, choices=NodeIntent.choices, default=NodeIntent.OPEN)
    intent_reason = models.TextField(blank=True)
    health = models.CharField(max_length=10, choices=NodeHealth.choices, default=NodeHealth.UNKNOWN)
    health_reason = SentenceField()
    full_since = models.DateTimeField(null=True, blank=True)
    stuck_since = models.DateTimeField(null=True, blank=True)
    stuck_cause = models.CharField(max_length=10, blank=True, default="", db_default="")
    stuck_words = models.TextField(blank=True, default="", db_default="")
    due = models.BigIntegerField(default=0, db_default=0)
    due_since = models.DateTimeField(null=True, blank=True)
    heard_since = models.DateTimeField(null=True, blank=True)
    out_since = models.DateTimeField(null=True, blank=True)
    out_cause = models.CharField(max_length=20, blank=True, default="", db_default="")
    trial_at = models.DateTimeField(null=True, blank=True)
    trials = models.PositiveSmallIntegerField(default=0, db_default=0)
    generation = models.BigIntegerField(default=1)
    placement_version = models.BigIntegerField(default=0)
    sku = models.ForeignKey(Sku, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    shape = models.ForeignKey(CellType, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    slots = models.JSONField(default=list, blank=True)
    rack = models.CharField(max_length=64, blank=True)
    upper = models.ForeignKey(UpperCell, null=True, blank=True, on_delete=models.SET_NULL, related_name="nodes")
    chain = models.CharField(max_length=CELL_TYPE_LENGTH, blank=True)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mb = models.PositiveIntegerField(default=0)
    address = models.CharField(max_length=64, blank=True)
    interface = models.CharField(max_length=32, blank=True)
    runtime = models.CharField(max_length=16, blank=True)
    simulated = models.BooleanField(default=False)
    port_first = models.PositiveIntegerField(default=20000)
    port_last = models.PositiveIntegerField(default=29999)
    storages = models.JSONField(default=list, blank=True, help_text="Roots that are mounted there")
    storage_faults = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="Of storages that it shall have and has not, by root, why"
    )
    inventory = models.JSONField(default=dict, blank=True, help_text="As last reported, for people")
    strangers = models.JSONField(
        default=dict, db_default={}, blank=True,
        help_text="task attempts that it runs and that are not known here -> gpus, folder, seen_at, stopped_by, reason",
    )  # fmt: skip
    accepted = models.JSONField(null=True, blank=True, help_text="Of its claims, what counts; none: it is pending")
    accepted_at = models.DateTimeField(null=True, blank=True)
    claims = models.JSONField(default=dict, db_default={}, blank=True, help_text="What it says beyond that")
    accept_first = models.BooleanField(default=False, db_default=False)
    cpu_tasks = models.BooleanField(default=True, db_default=True)
    ties = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="To storages, by id: portal.storages.ties"
    )
    boot = models.BigIntegerField(default=0)
    seq = models.BigIntegerField(default=0)
    clock_skew_ms = models.BigIntegerField(default=0, help_text="ahead of the portal's clock; negative: behind")
    late_ms = models.BigIntegerField(default=0, db_default=0, help_text="by how much its last report seemed late")
    late_at = models.DateTimeField(null=True, blank=True, help_text="when that was taken in, expired or not")
    last_report_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = InUse()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["name"], condition=Q(removed_at__isnull=True), name="node_name_once")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def clock_fault(self) -> str:
        """The fault of its clock; empty if none."""
        return clock_fault(self.clock_skew_ms)

    @property
    def agent_fault(self) -> str:
        """Why its agent's version does not fit; empty if it does."""
        return agent_fault(self.inventory)

    @property
    def pending(self) -> bool:
        """Whether it waits for an administrator to accept it; until then it gets nothing."""
        return self.accepted is None

    @property
    def silent(self) -> bool:
        """Whether it is silent together with most others; ``SILENT`` is the same as a filter."""
        return self.health == NodeHealth.HEALTHY and bool(self.health_reason)

    @property
    def shut(self) -> bool:
        """Whether a finding closes it, whatever its intent."""
        found = self.full_since, self.out_since, self.stuck_since
        return self.silent or any(since is not None for since in found)

    @property
    def takes_tasks(self) -> bool:
        """Whether new tasks may be placed on it; ``takes_tasks()`` is the same as a filter."""
        is_open = (self.intent, self.health) == (NodeIntent.OPEN, NodeHealth.HEALTHY)
        return is_open and self.accepted is not None and not self.shut


BAD_GPU = ~Q(fault="") | Q(present=False, slot__isnull=False)
"""GPUs faulty, or gone though the cluster counts on them: few of many."""


class Gpu(models.Model):
    """A GPU of a node. ``slot`` is its position in the node's accepted topology, one of the node's ``slots``: there it
    is a leaf cell with the address ``<node>/<slot>``. Without a slot it takes no tasks. A GPU moved to another node has
    a row in each, present in one."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80)
    index = models.PositiveIntegerField(help_text="as the node counts today")
    slot = models.PositiveIntegerField(null=True, blank=True)
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="gpus")
    model = models.CharField(max_length=100)
    memory_mb = models.PositiveIntegerField()
    details = models.JSONField(default=dict, blank=True, help_text="PCI address, NUMA node, groups, driver")
    present = models.BooleanField(default=True, help_text="False: was there and is not reported any more")
    fault = models.TextField(blank=True, help_text="Not empty: fenced off, and why")
    told = models.TextField(blank=True, default="", db_default="", help_text="What its node says is wrong with it now")
    accepted = models.TextField(
        blank=True, default="", db_default="", help_text="Of what its node says, what does not fence it off any more"
    )

    class Meta:
        ordering = ["node_id", "index"]
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], condition=Q(present=True), name="gpu_place_once"),
            models.UniqueConstraint(fields=["node", "uuid"], name="gpu_of_node_once"),
            models.UniqueConstraint(fields=["uuid"], condition=Q(present=True), name="gpu_present_once"),
        ]
        indexes = [models.Index(fields=["node", "index"], condition=BAD_GPU, name="gpu_bad")]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"

    @property
    def usable(self) -> bool:
        """Whether tasks may be placed on it."""
        return self.present and not self.fault


class NodeEvent(EventRow):
    """An event of a node."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")


class GpuCount(models.Model):
    """GPUs of a SKU by state (``Place`` of the map) at one moment: which were sick or closed then, no other row can
    tell."""

    at = models.DateTimeField()
    sku = models.ForeignKey(Sku, on_delete=models.CASCADE, related_name="counts")
    held = models.PositiveIntegerField()
    lent = models.PositiveIntegerField()
    free = models.PositiveIntegerField()
    out = models.PositiveIntegerField()
    sick = models.PositiveIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["at", "sku"], name="gpu_count_once")]

    def __str__(self) -> str:
        return f"{self.sku_id} at {self.at}"


class ReportsLane(models.Model):
    """Singleton: since when, without a gap, the portal has been taking reports in. A node's silence counts only from
    there: a portal, broker or database that was away loses no node."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    open_since = models.DateTimeField()
    last_pulse_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1) & Q(open_since__lte=F("last_pulse_at")), name="one_lane"),
        ]

    def __str__(self) -> str:
        return f"open since {self.open_since}"

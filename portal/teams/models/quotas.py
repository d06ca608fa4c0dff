"""Rows of quotas, over time, and of the limits of lending."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.common.names import CELL_TYPE_LENGTH, NAME
from portal.hardware.models import CellType, Node, Sku, UpperCell
from portal.teams.models.teams import VirtualCluster


class QuotaLine(models.Model):
    """``count`` cells of one type, guaranteed to a virtual cluster. ``chain`` is set if several have the type."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="quota")
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="quota")
    chain = models.CharField(max_length=CELL_TYPE_LENGTH, blank=True)
    count = models.PositiveIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["vc", "cell_type", "chain"], name="quota_line_once")]

    def __str__(self) -> str:
        return f"{self.count} x {self.cell_type_id}"


class QuotaChange(models.Model):
    """A quota change: from ``starts_at`` on, its lines replace those they name. With an end it is temporary (a deadline
    week): the lines below return by themselves, as they are then. Without one the lines themselves are changed at the
    start."""

    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    begun_at = models.DateTimeField(null=True, blank=True)
    over_at = models.DateTimeField(null=True, blank=True, help_text="ended, withdrawn, or made part of the quotas")
    withdrawn = models.BooleanField(default=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gt=F("starts_at")), name="quota_change_ends_later"
            )
        ]

    def __str__(self) -> str:
        return f"from {self.starts_at} to {self.ends_at}"


class QuotaChangeLine(models.Model):
    """One quota line of a change."""

    change = models.ForeignKey(QuotaChange, on_delete=models.CASCADE, related_name="lines")
    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="quota_changes")
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="quota_changes")
    chain = models.CharField(max_length=CELL_TYPE_LENGTH, blank=True)
    count = models.PositiveIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["change", "vc", "cell_type", "chain"], name="quota_change_line_once")
        ]

    def __str__(self) -> str:
        return f"{self.count} x {self.cell_type_id} for {self.vc_id}"


class LoanLimit(models.Model):
    """GPUs of one SKU that a virtual cluster may hold on loan (``max_borrow``) and lend of its idle ones
    (``max_lend``); None: no limit."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="loan_limits")
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT, related_name="loan_limits")
    max_borrow = models.PositiveIntegerField(null=True, blank=True)
    max_lend = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["vc", "sku"], name="loan_limit_once")]

    def __str__(self) -> str:
        return f"{self.vc_id}: {self.sku_id}"


class FirmRight(models.Model):
    """A user's right to non-preemptible jobs (``preemptible: false``): so many GPUs inside the quota of a virtual
    cluster, up to and including ``last_day`` (in the portal's time zone)."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="firm_rights")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="firm_rights")
    gpus = models.PositiveIntegerField()
    last_day = models.DateField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["vc", "user"], name="firm_right_once")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.vc_id}: {self.gpus} until {self.last_day}"


class ClusterVersion(models.Model):
    """Singleton whose ``version`` grows with every change of cells and quotas: of two concurrent changes, each valid
    alone, one is refused."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.BigIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_cluster_version")]

    def __str__(self) -> str:
        return str(self.version)


class PinnedCell(models.Model):
    """A named physical cell, reserved for one virtual cluster: an upper cell, a node, or a cell inside a node, whose
    first GPU is at position ``first`` (from 0) of the node's ``slots``."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    cell_type = models.ForeignKey(CellType, on_delete=models.PROTECT, related_name="pinned_cells")
    upper = models.ForeignKey(UpperCell, null=True, blank=True, on_delete=models.CASCADE, related_name="pinned_cells")
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="pinned_cells")
    first = models.PositiveIntegerField(default=0)
    vc = models.ForeignKey(
        VirtualCluster, null=True, blank=True, on_delete=models.SET_NULL, related_name="pinned_cells"
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(upper__isnull=False, node__isnull=True, first=0)
                | Q(upper__isnull=True, node__isnull=False),
                name="pinned_cell_somewhere",
            )
        ]

    def __str__(self) -> str:
        return self.name

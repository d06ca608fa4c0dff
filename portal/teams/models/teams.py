"""Rows of virtual clusters, their rules and members."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from portal.common.models import EventRow
from portal.common.names import NAME
from portal.common.priorities import PRIORITY_CLASSES
from portal.hardware.states import Borrow, VcRole

CLASSES = [(name, name) for name in PRIORITY_CLASSES]
PROFILES = [("user", "user"), ("root", "root")]


class Present(models.Manager["VirtualCluster"]):
    """Virtual clusters not removed."""

    def get_queryset(self) -> models.QuerySet[VirtualCluster]:
        return super().get_queryset().filter(removed_at__isnull=True)


class VirtualCluster(models.Model):
    """A team's guaranteed share of the cluster, and what it allows its users.

    A removed one stays for the jobs that ran in it, its name is free again, and ``objects`` leaves it out. ``weight``:
    its share of idle capacity relative to other teams. One user's guaranteed jobs may hold ``user_factor`` times the
    quota, and ``user_gpus`` GPUs of all kinds together; all jobs of class ``prod`` and above together ``class_gpus``.
    ``member_class``, ``lead_class``: the highest priority class of those roles. ``default_profile``: ``user``:
    containers always run as the job's user; ``root``: as root, or as the user if the job asks for that.
    ``log_quota_gb``: GB of logs kept of its finished jobs; 0: all, None: ``BERTH_LOG_QUOTA_GB``.
    """

    name = models.CharField(max_length=64, validators=[NAME])
    description = models.TextField(blank=True)
    default_profile = models.CharField(max_length=10, choices=PROFILES, default="root")
    host_network = models.BooleanField(default=False, help_text="Jobs of several tasks may use the host network")
    weight = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    user_factor = models.FloatField(null=True, blank=True)
    user_gpus = models.PositiveIntegerField(null=True, blank=True)
    class_gpus = models.PositiveIntegerField(null=True, blank=True)
    default_borrow = models.CharField(max_length=5, choices=Borrow.choices, default=Borrow.NEVER)
    member_class = models.CharField(max_length=4, choices=CLASSES, default="prod")
    lead_class = models.CharField(max_length=4, choices=CLASSES, default="crit")
    log_quota_gb = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = Present()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["name"], condition=Q(removed_at__isnull=True), name="vc_name_once"),
            models.CheckConstraint(condition=Q(weight__gte=1), name="vc_weight_from_one"),
            models.CheckConstraint(
                condition=Q(user_factor__isnull=True) | Q(user_factor__gt=0), name="vc_user_factor_above_zero"
            ),
        ]

    def __str__(self) -> str:
        return self.name


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


class VcEvent(EventRow):
    """An event of a virtual cluster."""

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="events")

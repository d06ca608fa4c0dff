"""Rows of virtual clusters, their rules and members."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from nodes.protocol.wording import Wording
from portal.common.columns import asked, within
from portal.common.models import EventRow
from portal.common.names import NAME
from portal.common.priorities import PRIORITY_CLASSES, priority_name
from portal.hardware.states import Borrow, VcRole
from portal.teams.models.rules import rule, rules_of

CLASSES = [(name, name) for name in PRIORITY_CLASSES]
CLASS_WORDS = {name: _(priority_name(number)) for name, number in PRIORITY_CLASSES.items()}
PROFILES = [("user", "user"), ("root", "root")]
MOST = 1_000_000


class Present(models.Manager["VirtualCluster"]):
    """Virtual clusters not removed."""

    def get_queryset(self) -> models.QuerySet[VirtualCluster]:
        return super().get_queryset().filter(removed_at__isnull=True)


class VirtualCluster(models.Model):
    """A team's guaranteed share of the cluster, and what it allows its users.

    A removed one stays for the jobs that ran in it, its name is free again, and ``objects`` leaves it out. Its rules
    are columns that say all else of themselves (``portal.teams.models.rules``).
    """

    name = asked(
        models.CharField(max_length=64, validators=[NAME], help_text="letters, digits, dot, dash and underscore"),
        _("Name"),
        _("Letters, digits, dot, dash and underscore. Job files call it so."),
    )
    description = asked(models.TextField(max_length=1000, blank=True), _("Description"))
    weight = rule(
        models.PositiveIntegerField(
            default=1, validators=within(1, MOST), help_text="its share of idle capacity beside others'"
        ),
        _("Weight"), _("Its share of idle GPUs beside others'."),
        event=Wording("rule_idle_weight", "weight for idle GPUs"), row=_("Weight for idle GPUs"),
    )  # fmt: skip
    user_factor = rule(
        models.FloatField(
            null=True, blank=True, validators=within(0.001, 1000),
            help_text="times the quota: what one user may hold",
        ),
        _("Part of the quota one user may hold"), _("0.5 is half of it; empty: no limit."), step="any",
        event=Wording("rule_user_share", "part of the quota one user may hold"), by_leads=True,
    )  # fmt: skip
    user_gpus = rule(
        models.PositiveIntegerField(
            null=True, blank=True, validators=within(0, MOST), help_text="GPUs that one user may hold"
        ),
        _("GPUs one user may hold"), _("Guaranteed jobs together; empty: no limit."),
        event=Wording("rule_user_gpus", "GPUs one user may hold"), row=_("One user may hold"), by_leads=True,
    )  # fmt: skip
    class_gpus = rule(
        models.PositiveIntegerField(
            null=True, blank=True, validators=within(0, MOST),
            help_text="GPUs of jobs of class prod and above together",
        ),
        _("GPUs of Production and Critical"), _("All such jobs together; empty: no limit."),
        event=Wording("rule_class_gpus", "GPUs of Production and Critical jobs"),
        row=_("Production and Critical together"),
    )  # fmt: skip
    default_borrow = rule(
        models.CharField(
            max_length=5, choices=Borrow.choices, default=Borrow.NEVER, help_text="for jobs that say nothing about it"
        ),
        _("Jobs borrow"), _("Start on idle GPUs before the quota is free, for jobs that say nothing about it."),
        event=Wording("rule_borrow", "jobs borrow"), row=_("Jobs borrow by default"), by_leads=True,
    )  # fmt: skip
    member_class = rule(
        models.CharField(max_length=4, choices=CLASSES, default="prod", help_text="highest priority class of members"),
        _("Highest class of members"),
        words=CLASS_WORDS,
        event=Wording("rule_member_class", "highest class of members"),
        row=_("Highest class"),
    )
    lead_class = rule(
        models.CharField(max_length=4, choices=CLASSES, default="crit", help_text="highest priority class of leads"),
        _("Highest class of leads"), words=CLASS_WORDS, event=Wording("rule_lead_class", "highest class of leads"),
    )  # fmt: skip
    log_quota_gb = rule(
        models.PositiveIntegerField(
            null=True, blank=True, validators=within(0, MOST),
            help_text="GB of logs that are kept of its jobs that are over; 0: all; null: as BERTH_LOG_QUOTA_GB says",
        ),
        _("GB of logs that are kept"),
        _("Of jobs that are over; the longest ended give way. 0: all; empty: as is usual in this portal."),
        event=Wording("rule_logs", "GB of logs that are kept"), row=_("Logs of jobs that are over"),
    )  # fmt: skip
    default_profile = rule(
        models.CharField(
            max_length=10, choices=PROFILES, default="root",
            help_text="as whom containers run: user: always as the job's user; root: as root, or as the user where the "
            "job asks for that",
        ),
        _("Containers run as"), _("As root a job reads every file of a storage that it mounts read-only."),
        words={"root": _("root, unless the job says user"), "user": _("the user, always")},
        event=Wording("rule_profile", "profile of containers"), row=_("Containers run as"),
    )  # fmt: skip
    host_network = rule(
        models.BooleanField(
            default=False,
            help_text="jobs of several tasks are accepted: their tasks share the network of their servers, listen on a "
            "server's ports, and reach whatever listens on its loopback; a job of one task never does",
        ),
        _("Jobs of several tasks"),
        _(
            "Their tasks share the network of their servers: they listen on a server's ports, and reach whatever "
            "listens on its loopback, also what answers without a password. A job of one task never does."
        ),
        words={False: _("refused: they need the host network"), True: _("accepted, on the host network")},
        event=Wording("rule_host_network", "host network for jobs of several tasks"), row=_("Jobs of several tasks"),
    )  # fmt: skip
    parking = rule(
        models.BooleanField(
            default=False,
            help_text="its jobs of one GPU can be parked where a server can do it: off their GPU, which is lent until "
            "they are resumed",
        ),
        _("Jobs are parked"),
        _(
            "A job of one task with one GPU can be moved off it, into its server's memory; the GPU is lent until "
            "somebody resumes it."
        ),
        words={False: _("never"), True: _("where the server can do it")},
        event=Wording("rule_parking", "jobs are parked"), row=_("Jobs are parked"), by_leads=True,
    )  # fmt: skip
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


RULES = rules_of(VirtualCluster)


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

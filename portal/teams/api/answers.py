"""What the API says of virtual clusters."""

from __future__ import annotations

import django_filters
from rest_framework import serializers

from portal.common.filters import GivenFilter
from portal.common.rows import RowAnswer
from portal.common.serializers import Answer
from portal.common.shapes import Shape
from portal.hardware.states import VcRole
from portal.teams.models import RULES, VirtualCluster


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


class VirtualClusterDetailAnswer(VirtualClusterAnswer, RowAnswer):
    """A virtual cluster with its quota and its rules."""

    quota = QuotaLineAnswer(many=True)
    pinned_cells = serializers.ListField(child=serializers.CharField(), help_text="physical cells of its own, by name")
    doomed = DoomedAnswer(many=True, help_text="cells of the quota that would have to sit on bad hardware now")
    loan_limits = LoanLimitAnswer(many=True)
    firm_rights = FirmRightAnswer(many=True)

    class Meta:
        model = VirtualCluster
        fields = (
            *("name", "description", "role", "gpus", "quota", "pinned_cells", *RULES),
            *("doomed", "loan_limits", "firm_rights"),
        )


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


class VirtualClusterFilter(GivenFilter):
    """Filters of the list of virtual clusters."""

    of = VirtualCluster

    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")

"""What the API says of changes of the cluster."""

from __future__ import annotations

from rest_framework import serializers

from portal.clusters.api.answers import QuotaLineAnswer
from portal.common.serializers import Answer
from portal.common.shapes import Shape


class DemotedAnswer(Shape):
    """A job that runs on, but from now on on loan: its owner may want the cells back."""

    id = serializers.IntegerField(source="pk")
    label = serializers.CharField(help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    vc = serializers.CharField(source="vc.name")
    gpus = serializers.IntegerField(source="gpus_held")


class ConfigurationAnswer(Shape):
    """What an import did, or would do."""

    dry_run = serializers.BooleanField(help_text="nothing was changed")
    demoted = DemotedAnswer(many=True, help_text="jobs that lose their guaranteed cells; none is stopped")


class NodeRemovedAnswer(Shape):
    """What the removal of a node did, or would do."""

    dry_run = serializers.BooleanField(help_text="nothing was changed")
    shortages = serializers.ListField(
        child=serializers.CharField(), help_text="quotas that there is not enough hardware for any more"
    )
    demoted = DemotedAnswer(many=True, help_text="jobs that lose their guaranteed cells; none is stopped")


class QuotasAnswer(Shape):
    """The quotas of all virtual clusters."""

    version = serializers.IntegerField(help_text="also the ETag: grows with every change of cells and quotas")
    lines = QuotaLineAnswer(many=True)


class QuotasChangedAnswer(QuotasAnswer):
    """The quotas after a change, or as they would be."""

    dry_run = serializers.BooleanField(help_text="nothing was changed")
    demoted = DemotedAnswer(many=True, help_text="jobs that lose their guaranteed cells; none is stopped")


class QuotaChangeAnswer(Answer):
    """A change of quotas from one moment on, or from one moment to another."""

    id = serializers.IntegerField(source="pk", allow_null=True, help_text="null in a dry run")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="null: for good")
    reason = serializers.CharField(allow_blank=True)
    actor = serializers.CharField(help_text="who planned it")
    begun_at = serializers.DateTimeField(allow_null=True)
    lines = QuotaLineAnswer(many=True, source="named", help_text="the quotas while it holds")
    returns = QuotaLineAnswer(many=True, help_text="the quotas that come back at its end, as they are planned today")


class QuotaChangePlannedAnswer(QuotaChangeAnswer):
    """A change as it was planned, or would be."""

    whole = True

    dry_run = serializers.BooleanField(help_text="nothing was changed")
    demoted = DemotedAnswer(many=True, help_text="of the jobs that run now those that would lose guaranteed cells")

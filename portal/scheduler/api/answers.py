"""What the API says of changes of the cluster."""

from __future__ import annotations

from rest_framework import serializers

from portal.common.serializers import Answer
from portal.common.shapes import Shape
from portal.teams.api.answers import QuotaLineAnswer


class DemotedAnswer(Shape):
    """A job that runs on, but from now on on loan: its owner may want the cells back."""

    id = serializers.IntegerField(source="job.pk")
    label = serializers.CharField(source="job.label", help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    vc = serializers.CharField(source="job.vc.name")
    gpus = serializers.IntegerField(help_text="how many of its GPUs that concerns")


class TakenAnswer(DemotedAnswer):
    """A job whose GPUs are taken back: it is warned, has its grace, and waits again."""


class EffectAnswer(Shape):
    """What a change does to the jobs that run, as it is when the scheduler's next cycle is through. A job that only
    moves to other cells of its quota loses nothing and is not named."""

    dry_run = serializers.BooleanField(help_text="nothing was changed")
    demoted = DemotedAnswer(many=True, source="effect.demoted", help_text="jobs that run on, but lose their guarantee")
    preempted = TakenAnswer(many=True, source="effect.preempted", help_text="jobs whose GPUs the next cycle takes back")


class QuotaMoveAnswer(Shape):
    """A line of the quotas that is another after a change."""

    vc = serializers.CharField()
    cell_type = serializers.CharField()
    chain = serializers.CharField(allow_blank=True, help_text="empty: that of the servers that name none")
    before = serializers.IntegerField(help_text="cells; 0: there was no such line")
    after = serializers.IntegerField(help_text="cells; 0: there is none any more")


class ConfigurationAnswer(EffectAnswer):
    """What an import did, or would do."""

    quotas = QuotaMoveAnswer(many=True, source="effect.quotas", help_text="the lines of quotas that it changes")


class StrandedAnswer(Shape):
    """A job that waits and may run on none of the servers that are left."""

    id = serializers.IntegerField(source="pk")
    label = serializers.CharField(help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    vc = serializers.CharField(source="vc.name")


class NodeRemovedAnswer(EffectAnswer):
    """What the removal of a node did, or would do."""

    shortages = serializers.ListField(
        child=serializers.CharField(), help_text="quotas that there is not enough hardware for any more"
    )
    stranded = StrandedAnswer(many=True, help_text="waiting jobs that may run on no other server; they wait on")


class QuotasAnswer(Shape):
    """The quotas of all virtual clusters."""

    version = serializers.IntegerField(help_text="also the ETag: grows with every change of cells and quotas")
    lines = QuotaLineAnswer(many=True)


class QuotasChangedAnswer(QuotasAnswer, EffectAnswer):
    """The quotas after a change, or as they would be."""


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


class QuotaChangePlannedAnswer(QuotaChangeAnswer, EffectAnswer):
    """A change as it was planned, or would be; of the jobs, what would become of those that run now."""

    whole = True

"""REST: who took whose GPUs back."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.serializers import Answer
from portal.common.shapes import Shape
from portal.job_pages.api.requests import PreemptionFilter
from portal.jobs.models import Preemption
from portal.jobs.selectors.preemptions import PreemptionShown, preemptions_of, preemptions_read, preemptions_shown
from portal.jobs.selectors.visible import job_get


class OtherJobAnswer(Shape):
    """The other job; which it is stands there for those who may see it."""

    user = serializers.CharField()
    vc = serializers.CharField()
    gpus = serializers.IntegerField(help_text="of the whole job")
    job = serializers.IntegerField(allow_null=True, help_text="the job's id")
    label = serializers.CharField(allow_null=True, help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class


class PreemptionAnswer(Answer):
    """GPUs that were taken back."""

    id = serializers.IntegerField(source="row.pk")
    lost = serializers.BooleanField(help_text="true: tasks of this job had to end; false: they made room for it")
    at = serializers.DateTimeField(source="row.at")
    deadline = serializers.DateTimeField(source="row.deadline", help_text="SIGKILL follows then")
    attempt = serializers.IntegerField(source="row.victim.number", help_text="of the job whose tasks had to end")
    tasks = serializers.IntegerField(source="row.tasks", help_text="that had to end")
    gpus = serializers.IntegerField(source="row.gpus", help_text="that these tasks held")
    other = OtherJobAnswer(allow_null=True, help_text="null: it is deleted")


class PreemptionsView(ApiView):
    """A job's preemptions."""

    filterset_class = PreemptionFilter
    orders = ("at", "gpus")

    @extend_schema(operation_id="job_preemption_list", responses=PreemptionAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """Every time its tasks had to end for another job, or those of another for it, newest first. Of another team's
        job one learns the owner, the virtual cluster and the GPUs."""
        job = job_get(user=self.user, job_id=job_id)

        def shown(rows: list[Preemption]) -> list[PreemptionShown]:
            read = preemptions_read(ids=[row.pk for row in rows])
            return preemptions_shown(rows=read, job=job, user=self.user)

        return self.page(preemptions_of(job=job), PreemptionAnswer, shown)

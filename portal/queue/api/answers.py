"""What the API says of the queue."""

from __future__ import annotations

from rest_framework import serializers

from portal.accounts.models import User
from portal.common.filters import GivenFilter, NamedFilter
from portal.common.serializers import Answer
from portal.common.shapes import Shape
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster


class StartAnswer(Shape):
    """When a waiting job will start."""

    p50 = serializers.DateTimeField(source="p50_at", help_text="as likely before as after")
    p90 = serializers.DateTimeField(source="p90_at", help_text="by then, nine times in ten")


class QueueAnswer(Answer):
    """A waiting job. Which it is and why it waits stands there for those who may see the job."""

    place = serializers.IntegerField(
        allow_null=True,
        help_text="from 1, in its virtual cluster among jobs that want the same SKU; null: in no order (yet)",
    )
    vc = serializers.CharField()
    user = serializers.CharField()
    priority = serializers.IntegerField()
    task_count = serializers.IntegerField()
    gpu_count = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    start = StartAnswer(allow_null=True, help_text="null: no estimate yet")
    reserved = serializers.BooleanField(help_text="next in line: what starts before it may not delay it")
    kept_gpus = serializers.IntegerField(help_text="GPUs that others are leaving for it")
    job = serializers.IntegerField(allow_null=True, help_text="the job's id")
    label = serializers.CharField(allow_null=True, help_text="user/name#run")  # type: ignore[assignment]  # a field, which DRF takes out of the class
    waiting_code = serializers.CharField(allow_null=True, allow_blank=True)
    waiting_message = serializers.CharField(allow_null=True, allow_blank=True)


class QueueFilter(GivenFilter):
    """Filters of the queue."""

    of = Job

    vc = NamedFilter(VirtualCluster, "name", help_text="name of a virtual cluster")
    user = NamedFilter(User, "username", help_text="user name")

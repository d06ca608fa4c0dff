"""What the API says of logs."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.common.shapes import Shape


@extend_schema_field(
    {
        "type": "array",
        "items": {"type": ["integer", "string"]},  # one after another, which not every reader of documents knows
        "minItems": 3,
        "maxItems": 3,
    }
)
class RecordField(serializers.ListField):
    """Time in ms since 1970, stream (1 stdout, 2 stderr, 3 a mark of Berth's), text."""


class LogAnswer(Shape):
    """A stretch of a task attempt's log."""

    task_attempt = serializers.UUIDField()
    offset = serializers.IntegerField(help_text="where it begins")
    next_offset = serializers.IntegerField(help_text="where to read on")
    complete = serializers.BooleanField(help_text="the log has ended and this was the last of it")
    lost_with = serializers.CharField(
        allow_blank=True, help_text="the server that is gone with the rest of the log; empty: nothing is missing"
    )
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="when the log was deleted; null: it is kept")
    deleted_because = serializers.CharField(
        allow_blank=True,
        help_text="`quota`: its virtual cluster has no room for more logs; `age`: it was old; empty: it is kept",
    )
    records = serializers.ListField(child=RecordField(), help_text="[time in ms, stream 1|2|3, text]; not lines")
    tail = serializers.ListField(
        child=RecordField(), help_text="the same of lines that have no end yet: at most the newest 4 kB of each stream"
    )


class LogStandingAnswer(Shape):
    """How one of a job's logs stands."""

    task_attempt = serializers.UUIDField()
    name = serializers.CharField(help_text="role and index of its task: `worker/3`")
    end = serializers.IntegerField(help_text="offset behind the last record known")
    complete = serializers.BooleanField(help_text="nothing is added any more")
    lost_with = serializers.CharField(allow_blank=True, help_text="the server that is gone with the rest of the log")
    tail = serializers.ListField(child=RecordField(), help_text="what stands behind the end, as in `GET …/logs`")


class LogsAnswer(Shape):
    """How the logs of several tasks stand."""

    logs = LogStandingAnswer(many=True)

"""REST: logs, by offset or as one text. Whoever wants them live opens ``/ws/logs/``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from redis import RedisError
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.credentials import still_may
from portal.accounts.models import User
from portal.accounts.rest import ApiView
from portal.common.errors import Unavailable
from portal.common.negotiation import Unnegotiated
from portal.common.streaming import DOWNLOADS, Download
from portal.jobs.api import ChosenTask, chosen_task
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.visible import job_get
from portal.jobs.services.read_audit import log_read
from portal.logs.api.answers import LogAnswer
from portal.logs.archive_store import Archive
from portal.logs.archiver import log_of
from portal.logs.ending import last_line, log_archived, log_given_whole, log_gone, log_lost_with
from portal.logs.reader import LogReader
from portal.logs.stream import streams_client
from portal.logs.text import TextDecoder, decoded, lost_row, text_rows

MOST_BYTES = 1_000_000
FURTHEST = 2**62


TOLD = [
    OpenApiParameter(name, kind, OpenApiParameter.HEADER, response=[200], description=f"of `text`: {description}")
    for name, kind, description in (
        ("Berth-Log-Complete", bool, "whether it is all that there will be"),
        ("Berth-Log-End", int, "the `offset` where it ends"),
        ("Berth-Task-Over", bool, "whether the task has ended, so that what is missing is on its way"),
    )
]


class LogQuery(ChosenTask):
    offset = serializers.IntegerField(min_value=0, max_value=FURTHEST, default=0, help_text="of `records`: where from")
    limit = serializers.IntegerField(
        min_value=1, max_value=MOST_BYTES, default=256 * 1024, help_text="of `records`: about so many bytes"
    )
    format = serializers.ChoiceField(
        ["records", "text"], default="records", help_text="`text`: the whole log as plain text"
    )


class LogsView(ApiView):
    """The log of a task."""

    content_negotiation_class = Unnegotiated
    problems = (429, 503)

    @extend_schema(
        operation_id="job_log",
        parameters=[LogQuery, *TOLD],
        responses={200: LogAnswer, (200, "text/plain"): str},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        """Records from an offset on, or the whole text as it is now, whose headers say whether that is all. Every
        `next_offset` is a good `offset`; any other number is rounded down to one. In `records`, a character that two
        answers cut in half is lost to both. At a live log's end `tail` has what was printed
        of lines that have no end yet; it is in no offset, and what the next answer has replaces it."""
        query = LogQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        row = chosen_task(user=self.user, job_id=job_id, wanted=wanted)
        now = timezone.now()
        log_read(user=self.user, attempt=row, now=now)
        reader = LogReader(Archive(settings.LOG_DIR), streams_client())
        try:
            if wanted["format"] == "text":
                still = still_may(request, lambda user: job_get(user=user, job_id=job_id))
                return _text(reader, row, now, user=self.user, still=still)
            return Response(_records(reader, row, wanted["offset"], wanted["limit"], now))
        except RedisError:
            raise Unavailable("The newest part of the log cannot be reached now.") from None


TEXT = "text/plain; charset=utf-8"


def _text(reader: LogReader, row: TaskAttempt, now: datetime, *, user: User, still: Callable[[], bool]) -> Download:
    log, job = log_of(row), row.task.job
    end = reader.end(log)
    told = {
        "Berth-Log-Complete": log_given_whole(row, end, gone=log_gone(job, now=now)),
        "Berth-Log-End": end,
        "Berth-Task-Over": row.over,
    }
    return Download(
        reader.download(log, last_line(row, job, now=now), end=end),
        seat=DOWNLOADS.take(user.pk),
        still=still,
        content_type=TEXT,
        ahead=True,
        headers={name: str(value).lower() for name, value in told.items()},
    )


def _records(reader: LogReader, row: TaskAttempt, offset: int, limit: int, now: datetime) -> dict[str, Any]:
    run, lost, gone = reader.read(log_of(row), offset, limit), log_lost_with(row), log_gone(row.task.job, now=now)
    end, rows = run.end, text_rows(run, TextDecoder())
    if not run.data and gone is None and end < row.log_end and log_archived(row):
        rows, end = [lost_row(row.log_end - end)], row.log_end  # it was archived before the archive was read
    whole = (row.log_complete and end >= row.log_end) or (gone is not None and not run.data)
    complete = whole or (bool(lost) and run.end >= reader.end(log_of(row)))
    return {
        "task_attempt": str(row.pk),
        "offset": run.start,
        "next_offset": end,
        "complete": complete,
        "lost_with": lost,
        "deleted_at": gone.at if gone else None,
        "deleted_because": gone.because if gone else "",
        "records": rows,
        "tail": [] if complete else decoded(reader.unfinished_behind(log_of(row), end), TextDecoder()),
    }

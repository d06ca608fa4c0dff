"""REST: the logs of several tasks in one answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from redis import RedisError
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.credentials import still_may
from portal.accounts.models import User
from portal.accounts.rest import ApiView
from portal.common.errors import NotFound, Unavailable
from portal.common.negotiation import Unnegotiated
from portal.common.serializers import Body
from portal.common.streaming import DOWNLOADS, Download
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.selectors.details import job_attempt_current
from portal.jobs.selectors.runs import LOGS_TOGETHER, run_name, runs_together
from portal.jobs.selectors.visible import job_get
from portal.jobs.services.read_audit import logs_read
from portal.logs.api.answers import LogsAnswer
from portal.logs.archive_store import Archive
from portal.logs.archiver import log_of
from portal.logs.ending import last_line, log_archived, log_given_whole, log_gone, log_lost_with
from portal.logs.reader import LogReader
from portal.logs.stream import streams_client
from portal.logs.text import TextDecoder, decoded
from portal.logs.together import NamedLog, file_name, merged_text, zipped

OUT_OF_REACH = "The newest part of the logs cannot be reached now."
TEXT, ZIP = "text/plain; charset=utf-8", "application/zip"


class LogsQuery(Body):
    attempt = serializers.IntegerField(
        min_value=1, max_value=10**6, required=False, help_text="the job's attempt of this number; else its newest"
    )
    log = serializers.ListField(
        child=serializers.UUIDField(), required=False, max_length=LOGS_TOGETHER,
        help_text="task attempts, each as a parameter of its own; without any, the newest of every task",
    )  # fmt: skip
    format = serializers.ChoiceField(
        ["text", "zip", "list"], default="text",
        help_text="`text`: all lines ordered by time, each with its time and its task; `zip`: one file for each task; "
        "`list`: how each stands",
    )  # fmt: skip


class AllLogsView(ApiView):
    """The logs of a job's tasks together."""

    content_negotiation_class = Unnegotiated
    problems = (429, 503)

    @extend_schema(
        operation_id="job_log_all",
        parameters=[LogsQuery],
        responses={200: LogsAnswer, (200, "text/plain"): str, (200, "application/zip"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        """The logs of all tasks of a job's attempt, or of those named by `log`, at most 200, as they are now: one
        text, as `2026-03-01T12:00:00.000Z worker/3 | epoch 1`, or a ZIP archive. Sent as it is read, however long; a
        user has eight downloads under way at most (`BERTH_DOWNLOADS_PER_USER`). Or a list of these logs, each with
        where it ends."""
        query = LogsQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        job = job_get(user=self.user, job_id=job_id)
        current = job_attempt_current(job=job)
        attempt = wanted.get("attempt") or (current.number if current else None)
        runs = runs_together(job=job, attempt=attempt, chosen=wanted.get("log", ()))
        now = timezone.now()
        logs_read(user=self.user, job=job, now=now)
        if wanted["format"] == "list":
            return Response({"logs": [_standing(_reader(), run, job, now) for run in runs]})
        if not runs:
            raise NotFound("log of job", job_id)
        still = still_may(request, lambda user: job_get(user=user, job_id=job_id))
        answer = _streamed([_named(run, job, now) for run in runs], wanted["format"], self.user, still)
        ending = "zip" if wanted["format"] == "zip" else "log"
        answer["Content-Disposition"] = f'attachment; filename="{file_name(job.name, job.run)}.{ending}"'
        return answer


def _reader() -> LogReader:
    return LogReader(Archive(settings.LOG_DIR), streams_client())


def _standing(reader: LogReader, run: TaskAttempt, job: Job, now: datetime) -> dict[str, Any]:
    log, whole = log_of(run), log_archived(run)
    try:
        end = run.log_end if whole else reader.end(log)
        complete = log_given_whole(run, end, gone=log_gone(job, now=now))
        tail = [] if complete else decoded(reader.unfinished_behind(log, end), TextDecoder())
    except RedisError:
        raise Unavailable(OUT_OF_REACH) from None
    return {
        "task_attempt": str(run.pk),
        "name": run_name(run),
        "end": end,
        "complete": complete,
        "lost_with": log_lost_with(run),
        "tail": tail,
    }


def _named(run: TaskAttempt, job: Job, now: datetime) -> NamedLog:
    file = file_name(f"{run.task.role.name}-{run.task.index}", run.number, "log")
    return NamedLog(run_name(run), file, log_of(run), last_line(run, job, now=now))


def _streamed(logs: list[NamedLog], wanted: str, user: User, still: Callable[[], bool]) -> Download:
    reader = _reader()
    chunks, kind = (zipped(reader, logs), ZIP) if wanted == "zip" else (merged_text(reader, logs), TEXT)
    try:
        for one in logs:
            reader.end(one.log)
        return Download(chunks, seat=DOWNLOADS.take(user.pk), still=still, content_type=kind, ahead=True)
    except RedisError:
        raise Unavailable(OUT_OF_REACH) from None

"""OpenPAI's REST API: runs of jobs and tasks, and their logs."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from redis import RedisError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Token
from portal.common.errors import Unavailable
from portal.common.negotiation import Unnegotiated
from portal.common.streaming import DOWNLOADS, Download
from portal.jobs.models import Job, Task, TaskAttempt
from portal.jobs.services.read_audit import log_read
from portal.logs.archive_store import Archive
from portal.logs.reader import LogReader
from portal.logs.stream import streams_client
from portal.openpai.answers import job_attempt, task_history
from portal.openpai.api.base import PaiView
from portal.openpai.errors import no_task, no_task_log
from portal.openpai.logs import STREAMS, log_addresses, log_door, log_text
from portal.openpai.selectors.jobs import AttemptSeen, attempt_seen, attempts_seen, job_found, task_runs


class HealthView(PaiView):
    """Whether the history of runs can be had: it is kept with the jobs."""

    def get(self, request: Request, framework: str) -> Response:
        return Response({"message": "OK"})


class JobAttemptsView(PaiView):
    """The runs of a job, newest first: those that are not among them are had by their numbers."""

    def get(self, request: Request, framework: str) -> Response:
        job = job_found(user=self.user, framework=framework)
        return Response([job_attempt(job, seen) for seen in attempts_seen(job=job)])


class JobAttemptView(PaiView):
    """One run of a job."""

    def get(self, request: Request, framework: str, attempt: str) -> Response:
        job = job_found(user=self.user, framework=framework)
        return Response(job_attempt(job, attempt_seen(job=job, index=int(attempt))))


class TaskView(PaiView):
    """A task with all its runs in one run of its job."""

    def get(self, request: Request, framework: str, attempt: str, role: str, index: str) -> Response:
        return Response(task_history(*self.found(framework, attempt, role, index)))

    def found(
        self, framework: str, attempt: str, role: str, index: str
    ) -> tuple[Job, AttemptSeen, Task, list[TaskAttempt]]:
        """What the address names, or NoJobError, or NoTaskError."""
        job = job_found(user=self.user, framework=framework)
        seen = attempt_seen(job=job, index=int(attempt))
        found = task_runs(job=job, attempt=seen, role=role, index=int(index))
        if found is None:
            raise no_task(f"{role}/{index}")
        task, runs = found
        return job, seen, task, runs


class TaskLogsView(TaskView):
    """Where the log of a run of a task is to be had."""

    def get(self, request: Request, framework: str, attempt: str, role: str, index: str, run: str = "") -> Response:
        job, _, task, runs = self.found(framework, attempt, role, index)
        if int(run) >= len(runs):
            raise no_task_log()
        row = runs[int(run)]
        task.job = job
        row.task = task
        asked = request.query_params
        tail = "true" in {asked.get("tailMode"), asked.get("tail-mode")}
        addresses = log_addresses(row=row, token=cast(Token, request.auth), tail=tail)
        return Response(
            {"locations": [{"name": one.name, "uri": request.build_absolute_uri(one.path)} for one in addresses]}
        )


class LogView(PaiView):
    """A stream of a log, opened by the token in its address."""

    authentication_classes = ()
    permission_classes = ()
    content_negotiation_class = Unnegotiated

    def get(self, request: Request, name: str) -> HttpResponseBase:
        door = log_door(signed=request.query_params.get("token", ""))
        user, row = door.opened()
        if name not in STREAMS:
            raise no_task_log()
        log_read(user=user, attempt=row, now=timezone.now())
        tail = request.query_params.get("tail-mode") == "true"
        reader = LogReader(Archive(settings.LOG_DIR), streams_client())
        try:
            text = log_text(reader=reader, row=row, streams=STREAMS[name], tail=tail)
            seat = DOWNLOADS.take(user.pk)
            return Download(text, seat=seat, still=door.still, content_type="text/plain; charset=utf-8", ahead=True)
        except RedisError:
            raise Unavailable("The newest part of the log cannot be reached now.") from None

"""OpenPAI's REST API: jobs."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q
from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.common.negotiation import Unnegotiated
from portal.common.parsers import StrictJSONParser
from portal.common.priorities import DEFAULT_PRIORITY_CLASS
from portal.common.serializers import Body, Text
from portal.job_pages.api.requests import JOB_FILES, JobFileAnyText, job_file
from portal.jobs.limits import SUBMITS
from portal.openpai.answers import (
    SSH_KEY_PAIR,
    WARNINGS,
    event,
    job_near,
    job_row,
    ssh_container,
    waiting_event,
)
from portal.openpai.api.base import PaiView
from portal.openpai.errors import PaiError, invalid
from portal.openpai.names import pai_name
from portal.openpai.selectors.jobs import (
    ORDERS,
    JobsAsked,
    attempt_seen,
    events_found,
    job_found,
    jobs_found,
    runs_open,
    tags_of,
)
from portal.openpai.services.jobs import job_create, job_execute, tag_add, tag_remove
from portal.openpai.states import PaiState

MOST = 50_000
"""What OpenPAI allows of a limit; fewer are answered (``MOST_JOBS``)."""
FURTHEST = 1_000_000_000


class ExecutionBody(Body):
    value = serializers.ChoiceField(["START", "STOP"])


class TagBody(Body):
    value = Text(max_length=1000)


class JobsView(PaiView):
    """Jobs."""

    scope = Scope.SUBMIT
    parser_classes: Sequence[type[BaseParser]] = (*JOB_FILES, JobFileAnyText)

    def get(self, request: Request) -> Response:
        """Those that one may see and that pass the filters."""
        asked = _asked(request)
        found = jobs_found(user=self.user, asked=asked)
        rows = [job_row(job, found.tags.get(job.pk, []), found.causes.get(job.pk, "")) for job in found.jobs]
        return Response(rows if found.total is None else {"totalCount": found.total, "data": rows})

    def post(self, request: Request) -> Response:
        """Submits a job file."""
        now = timezone.now()
        SUBMITS.take(f"user:{self.user.pk}", now=now)
        job = job_create(user=self.user, text=job_file(request), now=now)
        return Response({"message": f"update job {job.name} successfully"}, status=202)


def _asked(request: Request) -> JobsAsked:
    query = request.query_params
    given = {name: value for name in query if (value := query.get(name)) and isinstance(value, str)}
    field, _, way = given.get("order", "submissionTime,DESC").partition(",")
    if field not in ORDERS or way not in {"ASC", "DESC"}:
        raise invalid(f"order: must be one of {', '.join(ORDERS)}, a comma, and ASC or DESC.")
    if any("\0" in value for value in given.values()):
        raise invalid("A filter holds a null character.")
    return JobsAsked(
        users=_words(given, "username"),
        vcs=_words(given, "vc"),
        states=_states(given),
        priorities=[DEFAULT_PRIORITY_CLASS if one == "default" else one for one in _words(given, "jobPriority")],
        keyword=given.get("keyword", ""),
        tags=_words(given, "tagsContain"),
        tags_not=_words(given, "tagsNotContain"),
        order=field,
        descending=way == "DESC",
        offset=_number(given, "offset", 0, most=FURTHEST),
        limit=_number(given, "limit", 5000, most=MOST),
        counted=given.get("withTotalCount") == "true",
    )


def _words(given: dict[str, str], name: str) -> list[str]:
    return [word for word in given.get(name, "").split(",") if word]


def _states(given: dict[str, str]) -> list[PaiState]:
    words = _words(given, "state")
    if unknown := [word for word in words if word not in list(PaiState)]:
        raise invalid(f"state: {unknown[0][:50]} is none of {', '.join(PaiState)}.")
    return [PaiState(word) for word in words]


def _number(given: dict[str, str], name: str, usual: int, *, most: int) -> int:
    text = given.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise invalid(f"{name}: must be a whole number from 0 to {most}.")
    return int(text)


class JobView(PaiView):
    """One job with its newest run, or the one that the address names."""

    def get(self, request: Request, framework: str, attempt: str | None = None) -> Response:
        job = job_found(user=self.user, framework=framework)
        seen = attempt_seen(job=job, index=None if attempt is None else int(attempt))
        return Response(job_near(job, tags_of(jobs=[job]).get(job.pk, []), seen))


class ConfigView(PaiView):
    """A job's file, its secrets masked."""

    content_negotiation_class = Unnegotiated

    def get(self, request: Request, framework: str) -> HttpResponse:
        job = job_found(user=self.user, framework=framework)
        if not job.config:
            raise PaiError(404, "NoJobConfigError", f"Config of job {pai_name(job)} is not found.")
        return HttpResponse(job.config, content_type="text/yaml; charset=utf-8")


class ExecutionView(PaiView):
    """Stopping a job."""

    scope = Scope.SUBMIT

    def put(self, request: Request, framework: str) -> Response:
        job = job_found(user=self.user, framework=framework)
        start = self.body(ExecutionBody)["value"] == "START"
        told = job_execute(user=self.user, job=job, start=start, now=timezone.now())
        return Response({"message": told}, status=202)


class SshView(PaiView):
    """How the running containers of a job are reached, as OpenPAI told it until 1.0; Berth keeps no private key."""

    def get(self, request: Request, framework: str) -> Response:
        job = job_found(user=self.user, framework=framework)
        containers = [ssh_container(run) for run in runs_open(user=self.user, job=job)]
        if not containers:
            raise PaiError(404, "NoJobSshInfoError", f"SSH info of job {pai_name(job)} is not found.")
        return Response({"containers": containers, "keyPair": SSH_KEY_PAIR})


class TagView(PaiView):
    """Tags of a job."""

    scope = Scope.SUBMIT
    parser_classes = (StrictJSONParser,)

    def put(self, request: Request, framework: str) -> Response:
        job, tag = job_found(user=self.user, framework=framework), self.body(TagBody)["value"]
        tag_add(user=self.user, job=job, name=tag, now=timezone.now())
        return Response({"message": f"Add tag {tag} for job {pai_name(job)} successfully."})

    def delete(self, request: Request, framework: str) -> Response:
        job, tag = job_found(user=self.user, framework=framework), self.body(TagBody)["value"]
        tag_remove(user=self.user, job=job, name=tag, now=timezone.now())
        return Response({"message": f"Delete tag {tag} from job {pai_name(job)} successfully."})


EVENTS = {None: Q(), "Warning": Q(code__in=WARNINGS), "Normal": ~Q(code__in=WARNINGS)}


class EventsView(PaiView):
    """What happened to a job, newest first; before it why it waits, if it does."""

    def get(self, request: Request, framework: str) -> Response:
        kind = request.query_params.get("type") or None
        if kind not in EVENTS:
            raise invalid("type: must be Warning or Normal.")
        job = job_found(user=self.user, framework=framework)
        waiting = waiting_event(job) if kind != "Normal" else None
        found, total = events_found(job=job, only=EVENTS[kind])
        shown = [*([waiting] if waiting else []), *(event(job, row) for row in found)]
        return Response({"totalCount": total + bool(waiting), "data": shown})

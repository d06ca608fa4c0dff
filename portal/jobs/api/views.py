"""REST: jobs, what hangs on them, and the queue."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.clusters.selectors import JobSight, job_sight
from portal.common.pagination import ByPlace, OldestFirst
from portal.jobs.api.answers import (
    AttemptAnswer,
    EventAnswer,
    JobAnswer,
    JobDetailAnswer,
    QueueAnswer,
    RoleAnswer,
    TaskAnswer,
    ValidationAnswer,
    WaitingAnswer,
)
from portal.jobs.api.requests import (
    JOB_FILE_SCHEMA,
    JOB_FILES,
    JobFilter,
    QueueFilter,
    Unnegotiated,
    faults_of,
    job_file,
)
from portal.jobs.limits import SUBMITS
from portal.jobs.models import Job
from portal.jobs.selectors import (
    job_attempt_current,
    job_attempts,
    job_events,
    job_get,
    job_listed,
    job_roles,
    job_tasks,
    job_with_right,
    jobs_listed,
    queue_listed,
    queue_places,
)
from portal.jobs.services import job_check, job_hints, job_stop, job_submit
from portal.jobs.spec import SpecInvalid
from portal.jobs.states import JobState

SUBMIT_KEY = re.compile(r"[\x21-\x7e]{0,100}")
SUBMIT_KEY_PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "maxLength": 100, "pattern": r"^[\x21-\x7e]*$"},
    OpenApiParameter.HEADER,
    description="Sent again with the same key, a submission answers the job that the first one made.",
)


class JobsView(ApiView):
    """The jobs one may see."""

    scope = Scope.SUBMIT
    parser_classes = JOB_FILES
    queryset = Job.objects.none()  # for the OpenAPI document: what the filters are about
    filter_backends = (DjangoFilterBackend,)
    filterset_class = JobFilter
    problems = (409, 429)

    @extend_schema(operation_id="job_list", responses=JobAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Jobs of one's own and of one's virtual clusters, newest first."""
        return self.page(jobs_listed(user=self.user), JobAnswer)

    @extend_schema(
        operation_id="job_submit",
        request=JOB_FILE_SCHEMA,
        parameters=[SUBMIT_KEY_PARAMETER],
        responses={201: JobDetailAnswer, 200: JobDetailAnswer},
    )
    def post(self, request: Request) -> Response:
        """Submits a job file. 201 with the job; 200 with the earlier job for an `Idempotency-Key` used before; 400
        with every problem of the file and its path, and nothing is stored."""
        now = timezone.now()
        SUBMITS.take(f"user:{self.user.pk}", now=now)
        key = request.headers.get("Idempotency-Key", "")
        if not SUBMIT_KEY.fullmatch(key):
            raise ValidationError({"Idempotency-Key": "At most 100 visible ASCII characters."})
        try:
            job = job_submit(user=self.user, text=job_file(request), now=now, submit_key=key)
        except SpecInvalid as error:
            raise faults_of(error) from error
        status = 201 if job.submitted_at == now else 200
        return Response(_detail(job_listed(user=self.user, job_id=job.pk)), status=status)


class JobView(ApiView):
    """One job."""

    @extend_schema(operation_id="job", responses=JobDetailAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """State and its cause, why it waits and at which place, task roles, the newest attempt."""
        return Response(_detail(job_listed(user=self.user, job_id=job_id)))


def _detail(job: Job) -> dict[str, Any]:
    attempt = job_attempt_current(job=job)
    return {
        **JobAnswer(job).data,
        "waiting": WaitingAnswer(waiting).data if (waiting := _waiting(job)) else None,
        "roles": RoleAnswer(job_roles(job=job), many=True).data,
        "attempt": AttemptAnswer(attempt).data if attempt else None,
    }


def _waiting(job: Job) -> dict[str, Any] | None:
    if job.state != JobState.WAITING:
        return None
    return {
        "code": job.waiting_code,
        "message": job.waiting_message,
        "numbers": job.waiting_numbers,
        "place": queue_places(jobs=[job]).get(job.pk),
        "since": job.waiting_written_at,
        "not_before": job.not_before,
    }


class StopView(ApiView):
    """Stopping a job."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_stop", request=None, responses={200: JobDetailAnswer})
    def post(self, request: Request, job_id: int) -> Response:
        """Stops the job: at once where it waits, else its containers get SIGTERM and their grace period. Asked
        again while it stops: no change; 409 once it is over. For its owner, leads of its virtual cluster and
        administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_STOP)
        job_stop(job=job, actor=self.user, now=timezone.now())
        return Response(_detail(job_listed(user=self.user, job_id=job_id)))


class ConfigView(ApiView):
    """A job's file."""

    content_negotiation_class = Unnegotiated

    @extend_schema(operation_id="job_config", responses={(200, "application/yaml"): str})
    def get(self, request: Request, job_id: int) -> HttpResponse:
        """The job file as it was submitted, its secrets masked."""
        job = job_get(user=self.user, job_id=job_id)
        return HttpResponse(job.config, content_type="application/yaml; charset=utf-8")


class EventsView(ApiView):
    """What happened to a job."""

    pagination_class = OldestFirst

    @extend_schema(operation_id="job_event_list", responses=EventAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """Events, oldest first."""
        return self.page(job_events(job=job_get(user=self.user, job_id=job_id)), EventAnswer)


class AttemptsView(ApiView):
    """A job's attempts."""

    @extend_schema(operation_id="job_attempt_list", responses=AttemptAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """The runs of the job and what ended each, newest first."""
        return self.page(job_attempts(job=job_get(user=self.user, job_id=job_id)), AttemptAnswer)


class TasksView(ApiView):
    """A job's tasks."""

    pagination_class = OldestFirst

    @extend_schema(
        operation_id="job_task_list",
        parameters=[
            OpenApiParameter(
                "attempt",
                {"type": "integer", "minimum": 1, "maximum": 999_999},
                description="only what ran in this attempt of the job",
            )
        ],
        responses=TaskAnswer(many=True),
    )
    def get(self, request: Request, job_id: int) -> Response:
        """The tasks in the file's order, each with its newest attempts (at most five): node, GPUs, end."""
        job = job_get(user=self.user, job_id=job_id)
        return self.page(job_tasks(job=job, attempt=_attempt_number(request)), TaskAnswer)


def _attempt_number(request: Request) -> int | None:
    text = request.query_params.get("attempt")
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise ValidationError({"attempt": "A whole number from 1."})
    return int(text)


class ValidateView(ApiView):
    """Looking at a job file before submitting it."""

    scope = Scope.READ
    parser_classes = JOB_FILES

    @extend_schema(operation_id="job_validate", request=JOB_FILE_SCHEMA, responses={200: ValidationAnswer})
    def post(self, request: Request) -> Response:
        """Whether the file would be accepted, or every problem it has; nothing is stored."""
        try:
            spec = job_check(user=self.user, text=job_file(request))
        except SpecInvalid as error:
            refused = {"valid": False, "problems": error.problems, "hints": [], "summary": None}
            return Response(ValidationAnswer(refused).data)
        good = {"valid": True, "problems": [], "hints": job_hints(spec=spec), "summary": spec}
        return Response(ValidationAnswer(good).data)


class QueueView(ApiView):
    """What waits."""

    pagination_class = ByPlace
    queryset = Job.objects.none()
    filter_backends = (DjangoFilterBackend,)
    filterset_class = QueueFilter

    @extend_schema(operation_id="queue_list", responses=QueueAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Every waiting job in the order in which the scheduler takes them within each virtual cluster."""
        sight = job_sight(user=self.user)
        return self.page(queue_listed(), QueueAnswer, lambda jobs: [_queued(job, sight) for job in jobs])


_QUEUE_COLUMNS = ("place", "priority", "task_count", "gpu_count", "submitted_at")


def _queued(job: Job, sight: JobSight) -> dict[str, Any]:
    known = sight.covers(user_id=job.user_id, vc_id=job.vc_id)
    return {
        **{name: getattr(job, name) for name in _QUEUE_COLUMNS},
        "vc": job.vc.name,
        "user": job.user.username,
        "job": job.pk if known else None,
        "label": job.label if known else None,
        "waiting_code": job.waiting_code if known else None,
        "waiting_message": job.waiting_message if known else None,
    }

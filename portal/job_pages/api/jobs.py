"""REST: jobs and what hangs on them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from django.http import HttpResponse
from django.utils import timezone, translation
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.languages import asked_language
from portal.common.negotiation import Unnegotiated
from portal.common.pagination import NewestSubmitted, OldestFirst
from portal.files.selectors import folder_fate
from portal.job_file.problems import SpecInvalid
from portal.job_pages.api.answers import (
    AttemptAnswer,
    CodeAnswer,
    EventAnswer,
    FolderAnswer,
    JobAnswer,
    JobDetailAnswer,
    MovedAnswer,
    ParkingAnswer,
    RoleAnswer,
    TaskAnswer,
    ValidationAnswer,
    WaitingAnswer,
)
from portal.job_pages.api.requests import (
    JOB_FILE_SCHEMA,
    JOB_FILES,
    AttemptFilter,
    EventFilter,
    JobFilter,
    MoveBody,
    TaskFilter,
    faults_of,
    job_file,
)
from portal.jobs.limits import SUBMITS
from portal.jobs.models import Job
from portal.jobs.problem_words import problem_words
from portal.jobs.selectors.details import events_read, job_attempt_current, job_attempts, job_roles
from portal.jobs.selectors.lists import job_listed, jobs_sized
from portal.jobs.selectors.tasks import job_tasks, tasks_run
from portal.jobs.selectors.visible import job_get, job_restrict, job_with_right
from portal.jobs.services.admission import job_check, job_hints
from portal.jobs.services.move_to_vc import job_change_vc
from portal.jobs.services.pause import job_pause, job_resume
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import job_submit
from portal.parking.selectors import parking_told
from portal.parking.services.park import job_park, job_unpark
from portal.queue.selectors.queue import job_forecast, queue_places
from portal.queue.wait_translations import no_start_words
from portal.teams.selectors.visible import may, vc_key

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
    filterset_class = JobFilter
    pagination_class = NewestSubmitted
    orders = ("submitted_at", "name", "priority", "ended_at")
    problems = (409, 429)

    @extend_schema(operation_id="job_list", responses=JobAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Jobs of one's own and of one's virtual clusters, newest first. By `ended_at` come only those that are
        over."""
        vc = vc_key(name=self.request.query_params.get("vc", ""))
        rows = job_restrict(user=self.user, vc=vc).only("id", *self.orders)
        return self.page(rows, JobAnswer, lambda jobs: jobs_sized(ids=[job.pk for job in jobs], tags=True))

    @extend_schema(
        operation_id="job_submit",
        request=JOB_FILE_SCHEMA,
        parameters=[SUBMIT_KEY_PARAMETER],
        responses={201: JobDetailAnswer, 200: JobDetailAnswer},
    )
    def post(self, request: Request) -> Response:
        """Submits a job file. 201 with the job; 200 with the earlier job for an `Idempotency-Key` used before; 400
        with every problem of the file and its path, and nothing is stored; 429 for too many submissions in an hour,
        and where more of one's tasks would wait than one user may have (`BERTH_WAITING_TASKS`)."""
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
        return Response(job_detail(job_listed(user=self.user, job_id=job.pk)), status=status)


class JobView(ApiView):
    """One job."""

    @extend_schema(operation_id="job", responses=JobDetailAnswer)
    def get(self, request: Request, job_id: int) -> Response:
        """State and its cause, why it waits and at which place, task roles, the newest attempt."""
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


def job_detail(job: Job) -> dict[str, Any]:
    """One job's answer; a fixed number of queries."""
    attempt = job_attempt_current(job=job)
    return {
        **JobAnswer(job).data,
        "waiting": WaitingAnswer(waiting).data if (waiting := _waiting(job)) else None,
        "parking": ParkingAnswer(parking).data if (parking := parking_told(job)) else None,
        "roles": RoleAnswer(job_roles(job=job), many=True).data,
        "attempt": AttemptAnswer(attempt).data if attempt else None,
        "code": CodeAnswer(job.code).data if job.code else None,
        "folder": FolderAnswer(folder_fate(job=job, now=timezone.now())).data,
    }


def _waiting(job: Job) -> dict[str, Any] | None:
    expected = job_forecast(job=job)
    if expected is None:
        return None
    return {
        "code": job.waiting_code,
        "paused": job.paused,
        "placed_by": "lead" if job.led else "owner" if job.queue_ms is not None else "",
        "message": job.waiting_message,
        "numbers": job.waiting_numbers,
        "place": queue_places(jobs=[job]).get(job.pk),
        "start": expected.start,
        "score": expected.score,
        "no_start": no_start_words(forecast=expected, vc=job.vc.name, code=job.waiting_code),
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
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


class MoveView(ApiView):
    """Moving a waiting job."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_move", request=MoveBody, responses={200: MovedAnswer})
    def post(self, request: Request, job_id: int) -> Response:
        """Lets a waiting job wait in another virtual cluster, with its old time of submission. Its file is judged as if
        its owner submitted it there: 400 with every problem. 409 when it does not wait any more. For its owner, leads
        of the virtual cluster that it leaves and administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_MOVE)
        vc = self.body(MoveBody)["vc"]
        try:
            job_change_vc(job=job, vc=vc, **self.by)
        except SpecInvalid as error:
            raise faults_of(error) from error
        return Response(MovedAnswer(job).data)


class PauseView(ApiView):
    """Holding a waiting job back."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_pause", request=None, responses={200: JobDetailAnswer})
    def post(self, request: Request, job_id: int) -> Response:
        """Lets a waiting job wait without a turn: it does not start, holds nobody up, and gives up cells that are kept
        for it. Paused already: no change; 409 when it does not wait. For its owner, leads of its virtual cluster and
        administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_PAUSE)
        job_pause(job=job, **self.by)
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


class ParkView(ApiView):
    """Taking a running job off its GPU."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_park", request=None, responses={200: JobDetailAnswer})
    def post(self, request: Request, job_id: int) -> Response:
        """Moves what a running job has in its GPU's memory to its server's, and lends the GPU until the job is resumed;
        its program stands still meanwhile. Parked already: no change; 409 with the reason when it cannot be parked. For
        its owner, leads of its virtual cluster and administrators."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_PAUSE)
        job_park(job=job, **self.by)
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


class ResumeView(ApiView):
    """Letting a paused or parked job go on."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="job_resume", request=None, responses={200: JobDetailAnswer})
    def post(self, request: Request, job_id: int) -> Response:
        """Gives a paused job its turn again, by its old time of submission. Not paused: no change; 409 when it does not
        wait. For its owner, leads of its virtual cluster and administrators. One that is held since its owner may not
        run jobs there any more (reason `owner`) runs for the team once a lead or an administrator resumes it. A parked
        job has its GPU back as soon as whoever has it on loan has left."""
        job = job_with_right(user=self.user, job_id=job_id, action=Action.JOB_PAUSE)
        if job_unpark(job=job, **self.by):
            return Response(job_detail(job_listed(user=self.user, job_id=job_id)))
        lead = may(user=self.user, vc=job.vc, action=Action.VC_ORDER)
        job_resume(job=job, lead=lead, **self.by)
        return Response(job_detail(job_listed(user=self.user, job_id=job_id)))


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
    filterset_class = EventFilter
    orders = ("at",)

    @extend_schema(operation_id="job_event_list", responses=EventAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """Events, oldest first."""
        rows = job_get(user=self.user, job_id=job_id).events.only("id", "job", *self.orders)
        return self.page(rows, EventAnswer, lambda events: events_read(ids=[event.pk for event in events]))


class AttemptsView(ApiView):
    """A job's attempts."""

    filterset_class = AttemptFilter
    orders = ("number",)

    @extend_schema(operation_id="job_attempt_list", responses=AttemptAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """The runs of the job and what ended each, newest first."""
        return self.page(job_attempts(job=job_get(user=self.user, job_id=job_id)), AttemptAnswer)


class TasksView(ApiView):
    """A job's tasks."""

    pagination_class = OldestFirst
    filterset_class = TaskFilter
    orders = ("index", "state")
    parameters = ("attempt",)

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
        attempt = _attempt_number(request)
        return self.page(job_tasks(job=job), TaskAnswer, lambda tasks: tasks_run(tasks=tasks, attempt=attempt))


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
        """Whether the file would be accepted, or every problem it has; nothing is stored. Problems and hints are told
        in English, or in Chinese where `Accept-Language` prefers it."""
        problems, hints, spec = [], [], None
        try:
            text = job_file(request)
            spec = job_check(user=self.user, text=text)
            hints = job_hints(spec=spec, text=text, user=self.user)
        except SpecInvalid as error:
            problems = [*error.problems]
        with translation.override(asked_language(request)):
            found = {
                "valid": spec is not None,
                "problems": [replace(one, message=problem_words(one.message)) for one in problems],
                "hints": [problem_words(hint) for hint in hints],
                "summary": spec,
            }
        return Response(ValidationAnswer(found).data, headers={"Vary": "Accept-Language"})

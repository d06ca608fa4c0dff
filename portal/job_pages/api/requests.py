"""What is sent to us about jobs: job files, filters of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import django_filters
from django.conf import settings
from django.db.models import QuerySet
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from portal.accounts.models import User
from portal.common.errors import Fault, Invalid
from portal.common.filters import ChoicesFilter, GivenFilter, MomentFilter, NamedFilter
from portal.common.parsers import read_limited
from portal.common.priorities import PRIORITY_CLASSES
from portal.common.serializers import Body, Text
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job, JobAttempt, JobEvent, Preemption, Task
from portal.jobs.selectors.lists import jobs_tagged
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState
from portal.teams.models import VirtualCluster


class JobFile(BaseParser):
    """A job file as it was sent; the job file's own validation reads it."""

    media_type = "application/yaml"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return read_limited(stream, settings.MAX_JOB_FILE_BYTES)


class JobFileXYaml(JobFile):
    media_type = "application/x-yaml"


class JobFileTextYaml(JobFile):
    media_type = "text/yaml"


class JobFileJson(JobFile):
    """JSON is YAML too."""

    media_type = "application/json"


class JobFileAnyText(JobFile):
    """OpenPAI takes a job file as any text."""

    media_type = "text/*"


JOB_FILES = (JobFile, JobFileXYaml, JobFileTextYaml, JobFileJson)
JOB_FILE_SCHEMA = {kind.media_type: {"description": "an OpenPAI job file"} for kind in JOB_FILES}


class MoveBody(Body):
    vc = Text(max_length=64, help_text="name of the virtual cluster in which it shall wait")


def job_file(request: Request) -> bytes:
    """The job file of the request; empty where there is no body."""
    return request.data if isinstance(request.data, bytes) else b""


def faults_of(error: SpecInvalid) -> Invalid:
    """The refusal that lists every problem of a job file."""
    return Invalid(Fault(found.path, found.message, found.code, found.line) for found in error.problems)


class TagFilter(django_filters.CharFilter):
    """Jobs that have a tag, found by the tags' own index."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return jobs_tagged(qs, value) if value else qs


class ClassFilter(ChoicesFilter):
    """Jobs of priority classes."""

    def __init__(self, **more: Any) -> None:
        super().__init__(choices=[(name, name) for name in PRIORITY_CLASSES], **more)

    def filter(self, qs: QuerySet[Any], value: list[Any]) -> QuerySet[Any]:
        return qs.filter(priority__in=[PRIORITY_CLASSES[name] for name in value]) if value else qs


class JobFilter(GivenFilter):
    """Filters of the list of jobs."""

    of = Job

    state = ChoicesFilter(choices=JobState.choices, help_text="one or several")
    vc = NamedFilter(VirtualCluster, "name", help_text="name of a virtual cluster")
    user = NamedFilter(User, "username", help_text="user name")
    name = django_filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="part of the job's name")
    tag = TagFilter(help_text="that has this tag")
    priority_class = ClassFilter(help_text="one or several")
    since = MomentFilter(field_name="submitted_at", lookup_expr="gte", help_text="submitted then or later")
    until = MomentFilter(field_name="submitted_at", lookup_expr="lt", help_text="submitted before that")


class AttemptFilter(GivenFilter):
    """Filters of a job's attempts."""

    of = JobAttempt

    state = ChoicesFilter(choices=AttemptState.choices, help_text="one or several")
    end_reason = ChoicesFilter(choices=EndReason.choices, help_text="one or several")


class TaskFilter(GivenFilter):
    """Filters of a job's tasks."""

    of = Task

    state = ChoicesFilter(choices=TaskState.choices, help_text="one or several")
    role = django_filters.CharFilter(field_name="role__name", help_text="name of a task role")


class EventFilter(GivenFilter):
    """Filters of a job's events."""

    of = JobEvent

    code = django_filters.CharFilter(help_text="what happened, for programs")
    since = MomentFilter(field_name="at", lookup_expr="gte", help_text="then or later")


class PreemptionFilter(GivenFilter):
    """Filters of a job's preemptions."""

    of = Preemption

    since = MomentFilter(field_name="at", lookup_expr="gte", help_text="then or later")

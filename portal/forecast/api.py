"""REST: what would become of a job, before it is submitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils import timezone, translation
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.common.languages import asked_language
from portal.common.shapes import Shape
from portal.forecast.limits import WHAT_IFS
from portal.forecast.what_if import WhatIf, job_what_if
from portal.job_file.problems import SpecInvalid
from portal.job_pages.api.answers import FreeObject, ScoreAnswer
from portal.job_pages.api.requests import JOB_FILE_SCHEMA, JOB_FILES, faults_of, job_file
from portal.queue.api.answers import StartAnswer
from portal.queue.wait_translations import no_start_words, reason_words


class WouldWaitAnswer(Shape):
    """Why the job would wait."""

    code = serializers.CharField(help_text="for programs")
    message = serializers.CharField(help_text="in words")
    numbers = FreeObject(help_text="the numbers behind it")
    place = serializers.IntegerField(allow_null=True, help_text="from 1, as in `queue`")


class WhatIfAnswer(Shape):
    """What would become of the job were it submitted now."""

    nodes = serializers.ListField(child=serializers.CharField(), help_text="where it would start now; empty: it waits")
    waiting = WouldWaitAnswer(allow_null=True, help_text="why it would wait; null: it would start now")
    start = StartAnswer(allow_null=True, source="forecast.start", help_text="null: no estimate yet")
    score = ScoreAnswer(allow_null=True, source="forecast.score", help_text="of such estimates; null: too few to tell")
    no_start = serializers.CharField(
        allow_blank=True, help_text="why there is no estimate; empty: there is one, or the reason itself says when"
    )

    def to_representation(self, instance: WhatIf) -> dict[str, Any]:
        no_start = no_start_words(forecast=instance.forecast, vc=instance.vc, code=instance.code)
        told = {"nodes": instance.nodes, "forecast": instance.forecast, "no_start": no_start}
        return dict(super().to_representation(told if instance.nodes else {**told, "waiting": instance}))


class EstimatesView(ApiView):
    """What-if."""

    scope = Scope.READ
    parser_classes = JOB_FILES
    problems = (429,)

    @extend_schema(operation_id="job_estimate", request=JOB_FILE_SCHEMA, responses={200: WhatIfAnswer})
    def post(self, request: Request) -> Response:
        """Whether the job of this file would start now and where, or why it would wait and when it would start;
        nothing is stored. 400 with every problem of the file, as when it is submitted. The reason is told in English,
        or in Chinese where `Accept-Language` prefers it."""
        now = timezone.now()
        WHAT_IFS.take(f"user:{self.user.pk}", now=now)
        try:
            found = job_what_if(user=self.user, text=job_file(request), now=now)
        except SpecInvalid as error:
            raise faults_of(error) from error
        with translation.override(asked_language(request)):
            message = reason_words(code=found.code, numbers=found.numbers, message=found.message)
            answer = WhatIfAnswer(replace(found, message=message)).data
        return Response(answer, headers={"Vary": "Accept-Language"})

"""REST: job templates."""

from __future__ import annotations

from typing import Any

import django_filters
from django.conf import settings
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import IF_MATCH, ApiView, versioned
from portal.common.filters import GivenFilter, NamedFilter
from portal.common.names import NAME
from portal.common.serializers import Answer, Body, Text, Truth
from portal.teams.models import VirtualCluster
from portal.templates.models import JobTemplate
from portal.templates.samples import samples
from portal.templates.selectors import template_get, template_home, template_restrict, template_to_write
from portal.templates.services import template_change, template_create, template_remove, template_told

VISIBILITIES = [("private", "private"), ("vc", "vc"), ("public", "public")]


def file_text(**more: Any) -> Text:
    """A job file inside a JSON body."""
    return Text(
        max_length=settings.MAX_JOB_FILE_BYTES, trim_whitespace=False, help_text="a job file, as YAML or JSON", **more
    )


class TemplateChangeBody(Body):
    """What shall be different; what is not named stays."""

    name = Text(max_length=64, validators=[NAME], required=False)
    description = Text(max_length=1000, allow_blank=True, required=False)
    file = file_text(required=False)


class TemplateBody(Body):
    name = Text(max_length=64, validators=[NAME], help_text="letters, digits, dot, dash and underscore")
    description = Text(max_length=1000, allow_blank=True, default="")
    file = file_text()
    vc = Text(max_length=64, allow_null=True, default=None, help_text="whose members may read it; null: not one's")
    public = Truth(default=False, help_text="everybody may read it")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["vc"] is not None and attrs["public"]:
            raise ValidationError({"public": "A template is of a virtual cluster or of everybody, not both."})
        return attrs


class TemplateAnswer(Answer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    visibility = serializers.ChoiceField(VISIBILITIES, help_text="`private`: one's own; of a `vc`; `public`")
    vc = serializers.CharField(source="vc.name", allow_null=True, default=None)
    author = serializers.CharField(help_text="who wrote it last")
    changed_at = serializers.DateTimeField()


class TemplateDetailAnswer(TemplateAnswer):
    whole = True
    file = serializers.CharField(help_text="the job file, as it was typed")


class TemplateFilter(GivenFilter):
    """Filters of the list of templates."""

    of = JobTemplate

    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")
    visibility = django_filters.ChoiceFilter(
        choices=VISIBILITIES, method="with_visibility", help_text="one's own, of virtual clusters, or everybody's"
    )
    vc = NamedFilter(VirtualCluster, "name", help_text="of this virtual cluster")

    def with_visibility(self, rows: QuerySet[JobTemplate], name: str, value: str) -> QuerySet[JobTemplate]:
        return rows.filter(user__isnull=value != "private", vc__isnull=value != "vc")


class TemplatesView(ApiView):
    """Job templates."""

    scope = Scope.SUBMIT
    filterset_class = TemplateFilter
    orders = ("name", "changed_at")
    problems = (409,)

    @extend_schema(operation_id="template_list", responses=TemplateAnswer(many=True))
    def get(self, request: Request) -> Response:
        """One's own templates, those of one's virtual clusters, and everybody's, newest first, without their files."""
        return self.page(template_restrict(user=self.user).select_related("vc").defer("file"), TemplateAnswer)

    @extend_schema(operation_id="template_create", request=TemplateBody, responses={201: TemplateDetailAnswer})
    def post(self, request: Request) -> Response:
        """Stores a job file under a name: one's own, or with `vc` for a virtual cluster (its leads and administrators),
        or with `public` for everybody (administrators). 400 with every problem of the file, which may refer to
        `$parameters` and `$secrets` but holds no secrets itself; 409 where the name is taken there."""
        body = self.body(TemplateBody)
        home = template_home(user=self.user, vc=body.pop("vc"), public=body.pop("public"))
        made = template_create(home=home, **body, **self.by)
        return _answer(made, status=201)


class TemplateView(ApiView):
    """One template."""

    scope = Scope.SUBMIT
    problems = (409,)

    @extend_schema(operation_id="template", responses=TemplateDetailAnswer)
    def get(self, request: Request, template_id: int) -> Response:
        """The template with its file, and an ETag. To use it, change its file as you like and submit that."""
        return _answer(template_get(user=self.user, template_id=template_id))

    @extend_schema(
        operation_id="template_change", request=TemplateChangeBody, parameters=[IF_MATCH],
        responses=TemplateDetailAnswer,
    )  # fmt: skip
    def patch(self, request: Request, template_id: int) -> Response:
        """Changes what is named; whose it is stays. For whose it is: oneself, leads and administrators, or
        administrators."""
        template = template_to_write(user=self.user, template_id=template_id)
        changes = self.changes(TemplateChangeBody)
        changed = template_change(template=template, changes=changes, seen=self.seen(), **self.by)
        return _answer(changed)

    @extend_schema(operation_id="template_remove", responses={204: None})
    def delete(self, request: Request, template_id: int) -> Response:
        """Forgets the template; jobs that were made from it stay."""
        template = template_to_write(user=self.user, template_id=template_id)
        template_remove(template=template, **self.by)
        return Response(status=204)


def _answer(template: JobTemplate, status: int = 200) -> Response:
    return versioned(TemplateDetailAnswer(template), template_told(template), status)


class SampleAnswer(Answer):
    """A job file to begin with."""

    name = serializers.CharField()
    group = serializers.CharField(help_text="what it is about, such as `training`")
    description = serializers.CharField(source="spec.description")
    file = serializers.CharField(help_text="the job file; it names no virtual cluster")


class SamplesAnswer(Answer):
    whole = True

    samples = SampleAnswer(many=True)


class SamplesView(ApiView):
    """The gallery."""

    @extend_schema(operation_id="sample_list", responses=SamplesAnswer)
    def get(self, request: Request) -> Response:
        """Job files to begin with, which come with the portal, in the order in which the page shows them. To use one,
        name a virtual cluster in it (`defaults.virtualCluster`) and submit it."""
        return Response(SamplesAnswer({"samples": samples()}).data)

"""REST: the quotas of all virtual clusters, changed now or from one moment to another."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.errors import NotFound
from portal.common.moments import Moment
from portal.common.parameters import DRY_RUN, dry_run
from portal.common.serializers import Body, Text, Whole
from portal.scheduler.api.answers import QuotaChangeAnswer, QuotaChangePlannedAnswer, QuotasAnswer, QuotasChangedAnswer
from portal.scheduler.changes import PlannedChange, quota_change_plan, quotas_change, returns_of
from portal.teams.models import QuotaChange
from portal.teams.selectors.details import change_lines, lines_named, quota_changes
from portal.teams.selectors.quotas import as_lines, quota_lines
from portal.teams.selectors.visible import cluster_right
from portal.teams.services.cluster_version import cluster_version
from portal.teams.services.quotas import Wish, lines_resolve, quota_change_withdraw

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": '^"[0-9]{1,18}"$'},
    OpenApiParameter.HEADER,
    description="The ETag of the quotas that the change was made from; 409 when they are others by now.",
)
MOST_LINES = 1000


class QuotaLineBody(Body):
    vc = Text(max_length=64)
    cell_type = Text(max_length=100)
    chain = Text(max_length=100, allow_blank=True, default="")
    count = Whole(min_value=0, max_value=1_000_000)


class QuotasBody(Body):
    lines = serializers.ListField(child=QuotaLineBody(), max_length=MOST_LINES)
    reason = Text(max_length=500, allow_blank=True, default="", help_text="told by the teams' events and the audit log")


class QuotaChangeBody(QuotasBody):
    starts_at = Moment(required=False, help_text="now, where it is not given")
    ends_at = Moment(required=False, allow_null=True, default=None, help_text="null: for good")


def _wishes(lines: list[dict[str, Any]]) -> list[Wish]:
    return [Wish(**line) for line in lines]


class QuotasView(ApiView):
    """The quotas."""

    problems = (409,)

    @extend_schema(operation_id="quota_list", responses=QuotasAnswer)
    def get(self, request: Request) -> Response:
        """The cells guaranteed to each virtual cluster now, changes that hold for a time included."""
        return self._answer(QuotasAnswer, {})

    @extend_schema(
        operation_id="quota_set", request=QuotasBody, parameters=[DRY_RUN, IF_MATCH], responses=QuotasChangedAnswer
    )
    def patch(self, request: Request) -> Response:
        """Changes the named lines, all or none; a count of 0 takes a line away. 400 names each level that cannot be
        carved out, with need and what is there. No job is stopped by it: those that do not fit any more are demoted and
        listed, and so are those whose GPUs are wanted back at once. For administrators."""
        cluster_right(user=self.user)
        body, dry = self.body(QuotasBody), dry_run(request)
        effect = quotas_change(
            lines=lines_resolve(_wishes(body["lines"])),
            dry_run=dry,
            reason=body["reason"],
            version=_version(request),
            **self.by,
        )
        return self._answer(QuotasChangedAnswer, {"dry_run": dry, "effect": effect})

    def _answer(self, shape: type[serializers.Serializer[Any]], more: dict[str, Any]) -> Response:
        version = cluster_version()
        described = {"version": version, "lines": lines_named(quota_lines()), **more}
        return Response(shape(described).data, headers={"ETag": f'"{version}"'})


def _version(request: Request) -> int | None:
    text = request.headers.get("If-Match")
    if text is None:
        return None
    number = text.strip('"')
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise ValidationError({"If-Match": "This is no ETag of the quotas."})
    return int(number)


class QuotaChangesView(ApiView):
    """Changes of quotas to come."""

    pagination_class = None
    problems = (409,)

    @extend_schema(operation_id="quota_change_list", responses=QuotaChangeAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The changes that are to come or hold now, soonest first, each with what comes back at its end."""
        return self.listed([_described(row) for row in quota_changes()], QuotaChangeAnswer)

    @extend_schema(
        operation_id="quota_change_plan",
        request=QuotaChangeBody,
        parameters=[DRY_RUN],
        responses={201: QuotaChangePlannedAnswer, 200: QuotaChangePlannedAnswer},
    )
    def post(self, request: Request) -> Response:
        """Plans a change of quotas, such as for a deadline week: it begins and ends by itself and stops no job. Every
        moment at which quotas change from now on is checked. For administrators."""
        cluster_right(user=self.user)
        body, now, dry = self.body(QuotaChangeBody), timezone.now(), dry_run(request)
        lines = lines_resolve(_wishes(body["lines"]))
        starts_at: datetime = body.get("starts_at") or now
        planned = quota_change_plan(
            lines=lines, starts_at=starts_at, ends_at=body["ends_at"], reason=body["reason"], now=now,
            actor=self.user.username, dry_run=dry,
        )  # fmt: skip
        answer = {**_shown(planned), "dry_run": dry, "effect": planned.effect}
        return Response(QuotaChangePlannedAnswer(answer).data, status=200 if dry else 201)


class QuotaChangeView(ApiView):
    """One change of quotas."""

    problems = (409,)

    @extend_schema(operation_id="quota_change_withdraw", responses={204: None})
    def delete(self, request: Request, change_id: int) -> Response:
        """Withdraws it; one that has begun ends now. 409 once it is over. For administrators."""
        cluster_right(user=self.user)
        change = quota_changes(over=True).filter(pk=change_id).first()
        if change is None:
            raise NotFound("change of quotas", change_id)
        quota_change_withdraw(change=change, **self.by)
        return Response(status=204)


def _described(row: QuotaChange) -> dict[str, Any]:
    back = returns_of(as_lines(row.lines.all()), row.starts_at, row.ends_at)
    return _shown(PlannedChange(row, change_lines(row), back))


_COLUMNS = ("pk", "starts_at", "ends_at", "reason", "actor", "begun_at")


def _shown(change: PlannedChange) -> dict[str, Any]:
    columns = {name: getattr(change.row, name) for name in _COLUMNS}
    return {**columns, "named": change.named, "returns": change.returns}

"""REST: GPU hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.negotiation import Unnegotiated
from portal.common.serializers import Answer, Body
from portal.common.shapes import Shape
from portal.common.tables import csv_text
from portal.usage.selectors.usage_report import GROUPS, PERIODS, UsageQuery, UsageReport, UsageRow, usage_report

MOST_DAYS = 3660
CSV = "text/csv"
HOUR_MS = Decimal(3_600_000)


@extend_schema_field(str)
class Groups(serializers.Field[tuple[str, ...], Any, Any, Any]):
    """Some of ``GROUPS``, separated by commas."""

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        names = tuple(name.strip() for name in str(data).split(","))
        if {*names} - {*GROUPS}:
            raise ValidationError(f"Known are: {', '.join(GROUPS)}; several are separated by commas.")
        if len({*names}) < len(names) or sum(name in PERIODS for name in names) > 1:
            raise ValidationError(f"Name each only once, and only one of {', '.join(PERIODS)}.")
        return names


class UsageParameters(Body):
    by = Groups(required=False, help_text="what the rows are told apart by; `vc` where nothing is named")
    vc = serializers.CharField(max_length=64, required=False, help_text="name of a virtual cluster")
    user = serializers.CharField(max_length=64, required=False, help_text="user name")
    sku = serializers.CharField(max_length=64, required=False, help_text="name of a SKU")
    format = serializers.ChoiceField(["json", "csv"], required=False, help_text="else as `Accept` asks")

    def get_fields(self) -> dict[str, Any]:
        # The first is a word of Python's own.
        days = {
            "from": serializers.DateField(required=False, help_text="first day (UTC); else the first of this month"),
            "to": serializers.DateField(required=False, help_text="last day, included; else today"),
        }
        return {**days, **super().get_fields()}


BY = OpenApiParameter(
    "by",
    {"type": "array", "items": {"type": "string", "enum": list(GROUPS)}, "minItems": 1},
    description="What the rows are told apart by, separated by commas; `vc` where nothing is named.",
    style="form",
    explode=False,
)


class UsageSumsAnswer(Shape):
    """GPU hours. What is measured is known from readings; the rest of what was held is not known to be used or idle."""

    gpu_hours = serializers.FloatField(help_text="held: guaranteed and opportunistic ones together")
    guaranteed_gpu_hours = serializers.FloatField(help_text="inside the quota")
    opportunistic_gpu_hours = serializers.FloatField(help_text="on loan")
    grown_gpu_hours = serializers.FloatField(help_text="of those on loan, by extra tasks of elastic jobs")
    measured_gpu_hours = serializers.FloatField(help_text="of these, with readings of the utilisation")
    used_gpu_hours = serializers.FloatField(help_text="the measured ones times their utilisation")
    idle_gpu_hours = serializers.FloatField(help_text="measured minutes in which a GPU did next to nothing")
    wasted_gpu_hours = serializers.FloatField(
        help_text="work since the last checkpoint that was lost when GPUs were taken back, drained or lost with their "
        "node; on the day of the loss"
    )
    cost = serializers.DecimalField(
        max_digits=20, decimal_places=2, allow_null=True,
        help_text="GPU hours times today's prices of their SKUs; null: none has one",
    )  # fmt: skip


class UsageRowAnswer(UsageSumsAnswer):
    """Of one group: those of `vc`, `user`, `sku` and `period` that were asked for, in `by`."""

    vc = serializers.CharField(required=False)
    user = serializers.CharField(required=False, allow_null=True, help_text="null: others of your team together")
    sku = serializers.CharField(required=False)
    period = serializers.DateField(required=False, help_text="first day of the day, week or month")


class UsageAnswer(Answer):
    whole = True

    first = serializers.DateField(help_text="first day (UTC)")
    last = serializers.DateField(help_text="last day")
    until = serializers.DateTimeField(help_text="what has been held up to then is in it")
    by = serializers.ListField(child=serializers.ChoiceField(GROUPS))
    currency = serializers.CharField(allow_blank=True, help_text="of `cost`, as the portal is set")
    total = UsageSumsAnswer()
    rows = UsageRowAnswer(many=True, help_text="the first period first; then who held most")


class UsageView(ApiView):
    """GPU hours that were held and used."""

    content_negotiation_class = Unnegotiated

    @extend_schema(
        operation_id="usage_report",
        parameters=[UsageParameters, BY],
        responses={200: UsageAnswer, (200, CSV): str},
    )
    def get(self, request: Request) -> HttpResponse:
        """GPU hours held beside GPU hours really used, idle and wasted, by virtual cluster, user, SKU and time, running
        tasks up to now included. Administrators and auditors see all, leads their virtual clusters, members theirs
        without the names of the others, everybody the own. As JSON, or as CSV where `format` or `Accept` asks."""
        parameters = UsageParameters(data=request.query_params.dict())
        parameters.is_valid(raise_exception=True)
        now, wanted = timezone.now(), parameters.validated_data
        query = _query(wanted, now)
        report = usage_report(user=self.user, query=query, now=now)
        if (wanted.get("format") or _accepted(request)) == "csv":
            return _csv(query, report)
        return Response(_answer(query, report))


def _query(wanted: dict[str, Any], now: datetime) -> UsageQuery:
    today = now.astimezone(UTC).date()
    last: date = wanted.get("to", today)
    first: date = wanted.get("from", last.replace(day=1))
    if first > last:
        raise ValidationError({"from": f"{first} lies after the last day, {last}."})
    if last - first > timedelta(days=MOST_DAYS):
        raise ValidationError({"from": f"These are {(last - first).days} days; at most {MOST_DAYS} can be asked for."})
    return UsageQuery(first, last, wanted.get("by", ("vc",)), wanted.get("vc"), wanted.get("user"), wanted.get("sku"))


def _accepted(request: Request) -> str:
    preferred = request._request.get_preferred_type(["application/json", CSV])
    return "csv" if preferred == CSV else "json"


def _answer(query: UsageQuery, report: UsageReport) -> dict[str, Any]:
    document = {
        "first": query.first, "last": query.last, "until": report.until, "by": query.by, "currency": settings.CURRENCY,
        "total": _sums(report.total),
    }  # fmt: skip
    rows = [{**_group(query, row), **_sums(row)} for row in report.rows]
    return {**document, "rows": rows}


def _group(query: UsageQuery, row: UsageRow) -> dict[str, Any]:
    named = ("period" if name in PERIODS else name for name in query.by)
    return dict(zip(named, row.group, strict=True))


def _sums(row: UsageRow) -> dict[str, Any]:
    sums = row.sums
    times = {
        "": sums.guaranteed_ms + sums.opportunistic_ms, "guaranteed_": sums.guaranteed_ms,
        "opportunistic_": sums.opportunistic_ms, "grown_": sums.grown_ms, "measured_": sums.measured_ms,
        "used_": sums.used_ms, "idle_": sums.idle_ms, "wasted_": sums.wasted_ms,
    }  # fmt: skip
    hours = {f"{name}gpu_hours": round(float(ms / HOUR_MS), 4) for name, ms in times.items()}
    return {**hours, "cost": None if row.cost is None else f"{row.cost:.2f}"}


def _csv(query: UsageQuery, report: UsageReport) -> HttpResponse:
    rows = [{**_group(query, row), **_sums(row)} for row in report.rows]
    columns = [*_group(query, UsageRow(query.by)), *_sums(report.total)]
    answer = HttpResponse(csv_text(columns, ([*row.values()] for row in rows)), content_type=f"{CSV}; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="usage-{query.first}-{query.last}.csv"'
    return answer

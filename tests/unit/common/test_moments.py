"""Moments are read into UTC: in the night in which clocks change, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.urls import get_resolver
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.exceptions import ValidationError as Refused

from portal.common.moments import Moment, MomentField
from portal.common.rows import RowBody
from portal.common.serializers import Body

NO_OFFSETS = {
    "2026-10-25T02:30": "2026-10-25 02:30 comes twice in Europe/Berlin",
    "2026-03-29T02:30": "2026-03-29 02:30 does not exist in Europe/Berlin",
}


@pytest.fixture(autouse=True)
def in_berlin(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"


class Week(Body):
    starts_at = Moment()


class WeekForm(forms.Form):
    starts_at = MomentField()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2026-10-25T02:30:00+02:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-10-25T02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        ("2026-10-25T00:30:00Z", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-10-25T01:30", datetime(2026, 10, 24, 23, 30, tzinfo=UTC)),
        ("2026-10-25 03:30", datetime(2026, 10, 25, 2, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_is_in_utc_whatever_it_was_sent_as(typed: str, meant: datetime) -> None:
    body, form = Week(data={"starts_at": typed}), WeekForm({"starts_at": typed})
    assert (body.is_valid(), form.is_valid()) == (True, True)
    for read in (body.validated_data["starts_at"], form.cleaned_data["starts_at"]):
        assert (read, read.tzinfo) == (meant, UTC)


@pytest.mark.parametrize(("typed", "why"), NO_OFFSETS.items())
def test_a_time_that_comes_twice_or_never_is_refused_beside_its_field(typed: str, why: str) -> None:
    body, form = Week(data={"starts_at": typed}), WeekForm({"starts_at": typed})
    assert (body.is_valid(), form.is_valid()) == (False, False)
    assert why in str(body.errors["starts_at"][0])
    assert why in form.errors["starts_at"][0]


@pytest.mark.parametrize("typed", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_outside_of_all_years_is_refused(typed: str) -> None:
    with pytest.raises(ValidationError, match="outside of all years"):
        MomentField().clean(typed)
    with pytest.raises(Refused) as error:
        Moment().run_validation(typed)
    assert isinstance(error.value.detail, list)
    assert isinstance(error.value.detail[0], ErrorDetail)


def kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from kinds_of(one)


def test_no_body_and_no_form_reads_a_moment_otherwise() -> None:
    assert get_resolver().url_patterns  # every view is loaded
    ours = [
        one
        for kind in (Body, forms.BaseForm)
        for one in kinds_of(kind)
        if one.__module__.startswith("portal.") and one is not RowBody
    ]
    assert len(ours) > 50
    found = {
        (one.__name__, name)
        for one in ours
        for name, field in (one().fields if issubclass(one, Body) else one.base_fields).items()
        if isinstance(field, forms.DateTimeField | serializers.DateTimeField)
        and not isinstance(field, Moment | MomentField)
    }
    assert found == set()

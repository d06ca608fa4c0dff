"""Times that people and programs send, normalised to UTC: Python compares two times of one zone by wall clock, which is
wrong in the night when clocks go back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError as FormError
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, gettext_lazy
from rest_framework import serializers

from portal.common.forms import TEXT

_TWICE = gettext_lazy(
    "%(time)s comes twice in %(zone)s, where clocks are set back then: give a time outside of that hour, or use the "
    "API, which takes it with its offset (%(first)s or %(second)s)."
)
_NEVER = gettext_lazy("%(time)s does not exist in %(zone)s, where clocks are set forward then: give another time.")


def moment_of(typed: datetime) -> datetime:
    """The time in UTC. Without an offset it is in the portal's zone. Raises ValueError, with a sentence, for a local
    time that occurs twice or not at all, and for one out of range."""
    try:
        return (typed if typed.tzinfo is not None else _placed(typed)).astimezone(UTC)
    except OverflowError:
        raise ValueError(gettext("This time lies outside of all years that are counted.")) from None


def _placed(clock: datetime) -> datetime:
    zone = ZoneInfo(settings.TIME_ZONE)
    first, second = (clock.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    words = {"time": f"{clock:%Y-%m-%d %H:%M}", "zone": zone.key}
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != clock:
        raise ValueError(_NEVER % words)
    raise ValueError(_TWICE % {**words, "first": first.isoformat(), "second": second.isoformat()})


class Moment(serializers.DateTimeField):
    """A time in a request's body."""

    def enforce_timezone(self, value: datetime) -> datetime:
        try:
            return moment_of(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error), code="invalid") from None


class MomentField(forms.DateTimeField):
    """A time in a form or a filter."""

    widget = forms.DateTimeInput({**TEXT, "type": "datetime-local"})

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        try:
            typed = parse_datetime(str(value).strip())
        except ValueError:
            typed = None
        if typed is None:
            raise FormError(self.error_messages["invalid"], code="invalid")
        try:
            return moment_of(typed)
        except ValueError as error:
            raise FormError(str(error), code="invalid") from None

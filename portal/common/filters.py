"""What the filters of all lists share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django_filters
from django.core.exceptions import ValidationError
from django_filters.fields import IsoDateTimeField


class GivenFilter(django_filters.FilterSet):
    """A filter that is there without a value is a mistake: a script's empty variable shall not find everything."""

    def is_valid(self) -> bool:
        valid = super().is_valid()
        given = self.data or {}
        empty = [name for name in self.filters if name in given and not given[name]]
        for name in empty:
            self.form.add_error(name, "Give a value, or leave the filter out.")
        return valid and not empty


class MomentField(IsoDateTimeField):
    """A time in UTC: databases take fewer offsets than Python does."""

    def to_python(self, value: Any) -> datetime | None:
        moment = super().to_python(value)
        try:
            return moment.astimezone(UTC) if isinstance(moment, datetime) else None
        except OverflowError:
            raise ValidationError("This time lies outside of all years that are counted.", code="invalid") from None


class MomentFilter(django_filters.IsoDateTimeFilter):
    """A filter by a time with its offset, such as `2026-01-31T12:00:00Z`."""

    field_class = MomentField

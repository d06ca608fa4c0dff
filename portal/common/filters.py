"""Filters shared by all lists, and filters, ordering and field choice for lists that are not database rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import django_filters
from django.db.models import Model, QuerySet
from django.utils.translation import gettext_lazy
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from portal.common.moments import MomentField
from portal.common.pagination import ORDERING_PARAMETER, order_of, ordering_parameter
from portal.common.serializers import FIELDS_PARAMETER, fields_chosen
from portal.common.shapes import Shape

EMPTY = gettext_lazy("Give a value, or leave the filter out.")


class GivenFilter(django_filters.FilterSet):
    """Refuses a filter without a value: a script's empty variable must not match everything. ``of``: the rows."""

    of: type[Model]

    def is_valid(self) -> bool:
        valid = super().is_valid()
        given = self.data or {}
        empty = [name for name in self.filters if name in given and not given[name]]
        for name in empty:
            self.form.add_error(name, EMPTY)
        return valid and not empty

    def is_true(self, rows: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return rows.filter(**{name: value == "true"})


class NamedFilter(django_filters.CharFilter):
    """Rows that refer to the newest row of that name (earlier ones were removed); none if there is no such name. The
    name is looked up first, so that the database uses its index on the reference, however many rows there are."""

    def __init__(self, model: type[Model], column: str, **more: Any) -> None:
        super().__init__(**more)
        self._model, self._column = model, column

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        named = self._model._base_manager.filter(**{self._column: value}).order_by("-pk").values("pk")
        return qs.filter(**{str(self.field_name): named[:1]})


class ChoicesFilter(django_filters.MultipleChoiceFilter):
    """Rows with one of several values in a column of their own. Each is found once even without the library's
    ``DISTINCT``, for which the database would sort all rows before it gives the first page."""

    def __init__(self, **more: Any) -> None:
        super().__init__(distinct=False, **more)


def truth_filter(**more: Any) -> django_filters.ChoiceFilter:
    """Filters by a column that is true or false."""
    return django_filters.ChoiceFilter(choices=[("true", "true"), ("false", "false")], method="is_true", **more)


class MomentFilter(django_filters.IsoDateTimeFilter):
    """Filters by a time with its offset, such as `2026-01-31T12:00:00Z`."""

    field_class = MomentField  # type: ignore[assignment]  # it reads the same, and more strictly


def unknown_refuse(request: Request, known: Iterable[str]) -> None:
    """Raises ValidationError for unknown parameters: a misspelt filter must not match everything."""
    names = sorted(known)
    unknown = sorted(request.query_params.keys() - {*names})
    if unknown:
        raise ValidationError(dict.fromkeys(unknown, f"There is no such parameter; there are: {', '.join(names)}."))


# ---------------------------------------------------------------- short lists, built in memory

Reading = Callable[[str], Any]


def rows_chosen(rows: list[dict[str, Any]], shape: type[Shape], request: Request) -> list[Any]:
    """Filters and orders a short list's rows as the request asks, and picks fields. Every text, integer and boolean
    field can be filtered and ordered by."""
    plain, sorted_by = plain_fields(shape), ordering_fields(shape)
    unknown_refuse(request, {*plain, ORDERING_PARAMETER, FIELDS_PARAMETER})
    for name in plain.keys() & request.query_params.keys():
        wanted = [_read(plain[name], name, text) for text in request.query_params.getlist(name)]
        rows = [row for row in rows if row[name] in wanted]
    if ORDERING_PARAMETER in request.query_params:
        order = order_of(request, sorted_by, None)
        there = [row for row in rows if row[order.column] is not None]
        there.sort(key=lambda row: row[order.column], reverse=order.descending)
        rows = [*there, *(row for row in rows if row[order.column] is None)]
    kept = fields_chosen(request, list(shape.known()))
    return [{name: row[name] for name in kept} for row in rows]


def plain_fields(shape: type[Shape]) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """The fields that hold a single text, integer or boolean."""
    kinds = (serializers.CharField, serializers.IntegerField, serializers.BooleanField, serializers.ChoiceField)
    return {name: field for name, field in shape.known().items() if isinstance(field, kinds)}


def ordering_fields(shape: type[Shape]) -> list[str]:
    """The names of these, and of float and time fields."""
    more = (serializers.FloatField, serializers.DateTimeField)
    plain = plain_fields(shape)
    return [name for name, field in shape.known().items() if name in plain or isinstance(field, more)]


def parameters_of_rows(shape: type[Shape]) -> list[dict[str, Any]]:
    """OpenAPI parameters for what ``rows_chosen`` takes, except ``fields``."""
    plain = plain_fields(shape)
    filters = [
        {
            "name": name, "in": "query", "required": False, "description": "Only those; may be given several times.",
            "schema": {"type": "array", "items": _schema(field)},
        }
        for name, field in plain.items()
    ]  # fmt: skip
    return [*filters, ordering_parameter(ordering_fields(shape), None)]


def _schema(field: serializers.Field[Any, Any, Any, Any]) -> Mapping[str, Any]:
    if isinstance(field, serializers.ChoiceField):
        return {"type": "string", "enum": list(field.choices)}
    if isinstance(field, serializers.BooleanField):
        return {"type": "boolean"}
    return {"type": "integer" if isinstance(field, serializers.IntegerField) else "string"}


def _read(field: serializers.Field[Any, Any, Any, Any], name: str, text: str) -> Any:
    if isinstance(field, serializers.ChoiceField):
        return _one_of(name, text, {str(choice): choice for choice in field.choices})
    if isinstance(field, serializers.BooleanField):
        return _one_of(name, text, {"true": True, "false": False})
    if isinstance(field, serializers.IntegerField):
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValidationError({name: "A whole number."})
        return int(text)
    if not text:
        raise ValidationError({name: EMPTY})
    return text


def _one_of(name: str, text: str, choices: Mapping[str, Any]) -> Any:
    if text not in choices:
        raise ValidationError({name: f"Known are: {', '.join(choices)}."})
    return choices[text]

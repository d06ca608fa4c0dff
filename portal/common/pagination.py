"""Cursor pagination: a page stays right while rows come and go, and a late page costs as much as the first."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.core.exceptions import ValidationError as BadValue
from django.db.models import BooleanField, Func, Model, Q, Value
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination, LimitOffsetPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

FURTHEST = 1_000_000_000
ORDERING_PARAMETER = "ordering"


@dataclass(frozen=True, slots=True)
class Order:
    """Order by one column, ties by the list's key."""

    column: str
    descending: bool

    @property
    def name(self) -> str:
        """As in the query parameter."""
        return f"-{self.column}" if self.descending else self.column

    @property
    def turned(self) -> Order:
        """The reverse order."""
        return Order(self.column, not self.descending)


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor: the row after which a page begins, by its key and its value in the ordering column if that is another.
    ``back``: the page ends before it."""

    key: str
    value: str | None
    back: bool

    def text(self) -> str:
        """The cursor as in a URL."""
        parts = {
            "p": self.key,
            **({} if self.value is None else {"v": self.value}),
            **({"r": "1"} if self.back else {}),
        }
        return urlsafe_b64encode(urlencode(parts).encode()).decode()

    @classmethod
    def read(cls, text: str) -> Place:
        """Parses a cursor. Raises ValueError."""
        raw = urlsafe_b64decode(text.encode("ascii")).decode("ascii")
        parts = dict(parse_qsl(raw, strict_parsing=True, keep_blank_values=True))
        if not {"p"} <= parts.keys() <= {"p", "v", "r"} or parts.get("r", "1") != "1":
            raise ValueError(text)
        return cls(parts["p"], parts.get("v"), "r" in parts)


class Behind(Func):
    """Whether a row's columns come after these values in a row comparison: so the database starts in an index on them
    right there, however many rows share the first value."""

    output_field = BooleanField()

    def __init__(self, model: type[Model], order: Order, after: Mapping[str, str]) -> None:
        fields: list[Any] = [model._meta.get_field(name) for name in after]
        read = [_value(model, name, text) for name, text in after.items()]
        super().__init__(*after, *(Value(value, field) for value, field in zip(read, fields, strict=True)))
        self._sign, self._columns = "<" if order.descending else ">", len(fields)

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        parts = [compiler.compile(one) for one in self.get_source_expressions()]
        sql = [part[0] for part in parts]
        own, after = ", ".join(sql[: self._columns]), ", ".join(sql[self._columns :])
        return f"({own}) {self._sign} ({after})", [value for part in parts for value in part[1]]


class Cursor(BasePagination):
    """Newest first, by id. ``limit`` sets the page size (default 50, at most 200), ``ordering`` another order: by the
    key, or by one of the view's ``orders``. Rows that are NULL in that column (jobs that have not ended) are left out,
    since databases differ in where they sort. ``next`` and ``previous`` are URLs."""

    key = "id"
    default = Order("id", descending=True)
    page_size = 50
    max_page_size = 200
    position = re.compile(r"[0-9]{1,18}")

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        self._request, self._model = request, queryset.model
        self._order = order_of(request, self.names(view), self.default)
        limit, place = self.get_page_size(request), self._place()
        order = self._order.turned if place and place.back else self._order
        rows = queryset.order_by(*self._columns(order))
        if self._model._meta.get_field(order.column).null:
            rows = rows.filter(**{f"{order.column}__isnull": False})
        if place:
            rows = rows.filter(self._behind(place, order))
        found = list(rows[: limit + 1])
        more, found = len(found) > limit, found[:limit]
        if place and place.back:
            found.reverse()
        self._found, back = found, bool(place and place.back)
        self._more = (more or back, bool(place) and (more or not back)) if found else (False, False)
        return found

    def names(self, view: APIView | None) -> list[str]:
        """The columns that the view's rows can be ordered by."""
        return list(dict.fromkeys([self.key, *getattr(view, "orders", ())]))

    def _columns(self, order: Order) -> list[str]:
        sign = "-" if order.descending else ""
        return [sign + name for name in dict.fromkeys([order.column, self.key])]

    def _place(self) -> Place | None:
        text = self._request.query_params.get("cursor")
        if text is None:
            return None
        try:
            place = Place.read(text)
            if not self.position.fullmatch(place.key) or (place.value is None) is not (self._order.column == self.key):
                raise ValueError(text)
            _value(self._model, self._order.column, place.value)
        except (ValueError, binascii.Error, BadValue):
            raise ValidationError({"cursor": "This is not a cursor of this list in this order."}) from None
        return place

    def _behind(self, place: Place, order: Order) -> Q | Behind:
        """A filter for the rows after the cursor."""
        if place.value is None:
            return Q(**{f"{self.key}__{'lt' if order.descending else 'gt'}": place.key})
        return Behind(self._model, order, {order.column: place.value, self.key: place.key})

    def get_page_size(self, request: Request) -> int:
        """The page size that the request asks for."""
        return _whole(request, "limit", self.page_size, least=1, most=self.max_page_size)

    def get_paginated_response(self, data: Any) -> Response:
        forth, back = self._more
        return Response(
            {
                "next": self._link(self._found[-1], back=False) if forth else None,
                "previous": self._link(self._found[0], back=True) if back else None,
                "results": data,
            }
        )

    def _link(self, row: Model, *, back: bool) -> str:
        column = self._order.column
        field: Any = row._meta.get_field(column)
        value = None if column == self.key else field.value_to_string(row)
        place = Place(str(getattr(row, self.key)), value, back)
        return replace_query_param(self._request.build_absolute_uri(), "cursor", place.text())

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri", "example": None}
        return {
            "type": "object",
            "required": ["results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        cursor = {"type": "string"}
        limit = {"type": "integer", "minimum": 1, "maximum": self.max_page_size, "default": self.page_size}
        return [
            _parameter("cursor", "Where to go on: taken from `next` or `previous` of an answer.", cursor),
            _parameter("limit", "How many at most.", limit),
            ordering_parameter(self.names(view), self.default.name),
        ]


class NewestSubmitted(Cursor):
    """By time of submission, which goes with filters by time."""

    default = Order("submitted_at", descending=True)


class OldestFirst(Cursor):
    """In chronological order, by id."""

    default = Order("id", descending=False)


class ByName(Cursor):
    """For rows identified by name: nodes, virtual clusters."""

    key = "name"
    default = Order("name", descending=False)
    position = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ByUser(Cursor):
    """For accounts, by user name."""

    key = "username"
    default = Order("username", descending=False)
    position = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ByGroup(ByName):
    """For groups, which may have longer names."""

    position = re.compile(r"[^\0]{1,150}")


class BySecret(ByName):
    """For stored secrets, and registries by server."""

    position = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,259}")


class ByPlace(LimitOffsetPagination):
    """Offset pagination for the queue, whose order changes all the time: ``offset`` counts places."""

    default_limit = Cursor.page_size
    max_limit = Cursor.max_page_size

    def get_limit(self, request: Request) -> int:
        return _whole(request, "limit", self.default_limit, least=1, most=self.max_limit)

    def get_offset(self, request: Request) -> int:
        return _whole(request, "offset", 0, least=0, most=FURTHEST)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["count", "results"],
            "properties": {"count": {"type": "integer"}, "next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        offset = {"type": "integer", "minimum": 0, "maximum": FURTHEST, "default": 0}
        limit = {"type": "integer", "minimum": 1, "maximum": self.max_limit, "default": self.default_limit}
        return [
            _parameter("limit", "How many at most.", limit),
            _parameter("offset", "How many to leave out before.", offset),
            ordering_parameter(list(getattr(view, "orders", ())), None),
        ]


def order_of(request: Request, names: list[str], default: Order | None) -> Order:
    """The order that the request asks for. Raises ValidationError, naming the possible ones."""
    text = request.query_params.get(ORDERING_PARAMETER)
    if text is None and default is not None:
        return default
    name = (text or "").removeprefix("-")
    if name not in names:
        known = ", ".join(f"{one}, -{one}" for one in names)
        raise ValidationError({ORDERING_PARAMETER: f"Known are: {known}."})
    return Order(name, (text or "").startswith("-"))


def ordering_parameter(names: list[str], default: str | None) -> dict[str, Any]:
    """Its OpenAPI parameter."""
    shape: dict[str, Any] = {"type": "string", "enum": [sign + name for name in names for sign in ("", "-")]}
    if default is not None:
        shape["default"] = default
    return _parameter(ORDERING_PARAMETER, "By which field; with a minus the largest or newest first.", shape)


def _value(model: type[Model], column: str, text: str | None) -> Any:
    """A cursor's value as the column's type. Raises Django's ValidationError for an impossible one."""
    if text is None:
        return None
    if "\0" in text:
        raise BadValue("NUL")
    field: Any = model._meta.get_field(column)
    value = field.to_python(text)
    field.run_validators(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadValue("no time zone")
    return value


def _whole(request: Request, name: str, default: int, *, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise ValidationError({name: f"A whole number from {least} to {most}."})
    return int(text)


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

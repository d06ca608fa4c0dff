"""Pages of lists by cursor: a page stays right while rows come and go, and a late page costs what the first does."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import Cursor as Place
from rest_framework.pagination import CursorPagination, LimitOffsetPagination
from rest_framework.request import Request
from rest_framework.views import APIView

FURTHEST = 1_000_000_000


class Cursor(CursorPagination):
    """Newest first, by id. ``limit`` sets the length of a page (default 50, at most 200); ``next`` and ``previous``
    of the answer are addresses."""

    ordering: Any = "-id"
    page_size = 50
    max_page_size = 200
    page_size_query_param = "limit"
    position = re.compile(r"[0-9]{1,18}")

    def decode_cursor(self, request: Request) -> Place | None:
        """A cursor that this portal did not make is refused, before a database sees what is in it."""
        encoded = request.query_params.get(self.cursor_query_param)
        if encoded is None:
            return None
        try:
            place = super().decode_cursor(request)
        except Exception:  # whatever base64, ASCII or numbers had to complain about
            place = None
        known = place is not None and (place.position is None or self.position.fullmatch(str(place.position)))
        if not known:
            raise ValidationError({"cursor": "This is not a cursor of this list."})
        return place

    def get_page_size(self, request: Request) -> int:
        return _whole(request, "limit", self.page_size, least=1, most=self.max_page_size)

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        cursor = {"type": "string"}
        limit = {"type": "integer", "minimum": 1, "maximum": self.max_page_size, "default": self.page_size}
        return [
            _parameter("cursor", "Where to go on: taken from `next` or `previous` of an answer.", cursor),
            _parameter("limit", "How many at most.", limit),
        ]


class OldestFirst(Cursor):
    """In the order in which things happened."""

    ordering = "id"


class ByName(Cursor):
    """For what has a name of its own: nodes, virtual clusters."""

    ordering = "name"
    position = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class BySecret(ByName):
    """For stored secrets, and for registries by their servers."""

    position = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,259}")


class ByPlace(LimitOffsetPagination):
    """For the queue, which changes its order all the time: ``offset`` counts places, ``limit`` as elsewhere."""

    default_limit = Cursor.page_size
    max_limit = Cursor.max_page_size

    def get_limit(self, request: Request) -> int:
        return _whole(request, "limit", self.default_limit, least=1, most=self.max_limit)

    def get_offset(self, request: Request) -> int:
        return _whole(request, "offset", 0, least=0, most=FURTHEST)

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        offset = {"type": "integer", "minimum": 0, "maximum": FURTHEST, "default": 0}
        limit = {"type": "integer", "minimum": 1, "maximum": self.max_limit, "default": self.default_limit}
        return [
            _parameter("limit", "How many at most.", limit),
            _parameter("offset", "How many to leave out before.", offset),
        ]


def _whole(request: Request, name: str, default: int, *, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise ValidationError({name: f"A whole number from {least} to {most}."})
    return int(text)


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

"""OpenAPI generation: what drf-spectacular finds by itself, plus the responses common to all endpoints."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiParameter
from rest_framework.serializers import ListSerializer

from portal.common.filters import parameters_of_rows
from portal.common.problems import MEDIA_TYPE, TITLES
from portal.common.serializers import FIELDS_PARAMETER, Answer, Body, ProblemAnswer

EVERY = (400, 401, 403, 404, 406)
WITH_BODY = (413, 415)
WRITING = ("POST", "PUT", "PATCH")


class Schema(AutoSchema):
    """Adds the problem documents that any request may meet (a view names its own in ``problems``), and the ``fields``
    parameter to lists."""

    def get_override_parameters(self) -> list[Any]:
        parameters = list(super().get_override_parameters())
        answer = self.get_response_serializers()
        if self.method == "GET" and isinstance(answer, ListSerializer) and isinstance(answer.child, Answer):
            parameters.append(_fields(list(answer.child.fields)))
            if self._get_paginator() is None:
                parameters += map(_as_parameter, parameters_of_rows(type(answer.child)))
        return parameters

    def _map_basic_serializer(self, serializer: Any, direction: str) -> dict[str, Any]:
        mapped: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if not vars(type(serializer)).get("__doc__"):
            mapped.pop("description", None)  # a base class's: it speaks of that, and to us
        if isinstance(serializer, Body):
            mapped["additionalProperties"] = False
        if isinstance(serializer, Answer) and not serializer.whole:
            mapped.pop("required", None)  # ``fields`` may leave some out
        return mapped

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        reference = self.resolve_serializer(ProblemAnswer, "response").ref
        for status in self._problem_statuses():
            content = {MEDIA_TYPE: {"schema": reference}}
            bodies.setdefault(str(status), {"description": TITLES[status], "content": content})
        return bodies

    def _problem_statuses(self) -> list[int]:
        body = WITH_BODY if self.method in WRITING else ()
        return sorted({*EVERY, *body, *getattr(self.view, "problems", ())})


def _as_parameter(described: dict[str, Any]) -> OpenApiParameter:
    return OpenApiParameter(described["name"], described["schema"], description=described["description"])


def _fields(names: list[str]) -> OpenApiParameter:
    shape = {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1}
    description = "Only these fields of each row, separated by commas."
    return OpenApiParameter(FIELDS_PARAMETER, shape, description=description, style="form", explode=False)


def defaults_outward(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Moves each default out of ``oneOf``, to apply to the whole field: an empty e-mail address is no e-mail
    address."""
    for schema in result["components"]["schemas"].values():
        for described in schema.get("properties", {}).values():
            for kind in described.get("oneOf", []):
                if "default" in kind:
                    described["default"] = kind.pop("default")
    return result

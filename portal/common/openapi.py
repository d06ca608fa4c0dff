"""The OpenAPI document: what drf-spectacular finds by itself, and what every address of ours answers besides."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import ListSerializer

from portal.common.problems import MEDIA_TYPE, TITLES
from portal.common.serializers import FIELDS_PARAMETER, Answer, ProblemAnswer

EVERY = (400, 401, 403, 404, 406)
WITH_BODY = (413, 415)
WRITING = ("POST", "PUT", "PATCH")


class Schema(AutoSchema):
    """Adds the problem documents that any request may meet (those of a view's own stand in its ``problems``), and
    the choice of fields to lists."""

    def get_override_parameters(self) -> list[Any]:
        parameters = list(super().get_override_parameters())
        answer = self.get_response_serializers()
        if isinstance(answer, ListSerializer) and isinstance(answer.child, Answer):
            names = ", ".join(f"`{name}`" for name in answer.child.fields)
            parameters.append(
                OpenApiParameter(FIELDS_PARAMETER, str, description=f"Only these, separated by commas, of: {names}.")
            )
        return parameters

    def _get_response_bodies(self, direction: str = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        reference = self.resolve_serializer(ProblemAnswer, "response").ref
        for status in self._problem_statuses():
            content = {MEDIA_TYPE: {"schema": reference}}
            bodies.setdefault(str(status), {"description": TITLES[status], "content": content})
        return bodies

    def _problem_statuses(self) -> list[int]:
        body = WITH_BODY if self.method in WRITING else ()
        return sorted({*EVERY, *body, *getattr(self.view, "problems", ())})

"""Serializer bases of the API: strict request bodies, answers with a choice of fields, problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from portal.common.shapes import Shape

FIELDS_PARAMETER = "fields"


class Text(serializers.CharField):
    """A JSON string; numbers are refused."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Whole(serializers.IntegerField):
    """A JSON number without a fraction; refuses ``"1"`` and ``true``."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return int(super().to_internal_value(data))


class Truth(serializers.BooleanField):
    """JSON ``true`` or ``false``; refuses ``"yes"`` and 1."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Body(serializers.Serializer[Any]):
    """What is sent to us: a field that we do not know is a mistake of the sender, never ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(key) for key in data.keys() - self.fields.keys())
            if unknown:
                known = ", ".join(self.fields)
                raise ValidationError(dict.fromkeys(unknown, f"There is no such field; there are: {known}."))
        return super().to_internal_value(data)


class Answer(Shape):
    """What we send. Of a list's rows ``?fields=id,state`` asks for these fields only; shapes that are never rows of
    a list say so by ``whole``."""

    whole = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        request = self.context.get("request")
        if isinstance(request, Request) and self.context.get("choose_fields"):
            self.chosen = frozenset(fields_chosen(request, list(self.known())))


class Ready(Shape):
    """What the view has made ready as it is sent: the fields say its shape, and none is gone through one by one. For
    shapes of which one answer has hundreds."""

    def to_representation(self, instance: Any) -> Any:
        return instance


def fields_chosen(request: Request, known: list[str]) -> list[str]:
    """The fields that the request asks for; all if it names none. Raises ValidationError."""
    names = request.query_params.get(FIELDS_PARAMETER)
    if names is None:
        return known
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    if not wanted or wanted - {*known}:
        raise ValidationError({FIELDS_PARAMETER: f"Known are: {', '.join(known)}."})
    return [name for name in known if name in wanted]


class FaultAnswer(Shape):
    """One thing wrong with what was sent."""

    path = serializers.CharField(help_text="where, such as `taskRoles.train.instances`; empty: the whole")
    message = serializers.CharField()
    code = serializers.CharField(help_text="for programs")
    line = serializers.IntegerField(required=False, allow_null=True, help_text="of a job file, from 1")


class ProblemAnswer(Shape):
    """Why a request was refused (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="a sentence for people")
    errors = FaultAnswer(many=True, required=False, help_text="every problem at once")  # type: ignore[assignment]  # a field, which DRF takes out of the class

"""Bodies and answers of rows: type, bounds, choices, default and meaning of a field are those of its column, whose
``help_text`` is what the API's document says."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from rest_framework import serializers
from rest_framework.validators import UniqueValidator

from portal.common.serializers import Answer, Body, Text, Truth, Whole


class _OfRow(serializers.ModelSerializer[Any]):
    """What both have in common. Whether a value is taken, and what it is then, is for the service to say."""

    kept: frozenset[str]

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[type, dict[str, Any]]:
        kind, told = super().build_standard_field(field_name, model_field)
        return kind, {name: value for name, value in told.items() if name in self.kept}

    def get_uniqueness_extra_kwargs(self, field_names: Any, declared_fields: Any, extra_kwargs: Any) -> Any:
        return extra_kwargs, {}

    def get_validators(self) -> list[Any]:
        return []


class RowBody(Body, _OfRow):
    """What is sent for a new row. ``change``: for one that is there, of which nothing need be named."""

    change = False
    kept = frozenset(
        {"help_text", "choices", "allow_null", "allow_blank", "max_length", "min_value", "max_value", "validators",
         "required"}
    )  # fmt: skip
    serializer_field_mapping: ClassVar[
        dict[type[models.Field[Any, Any]], type[serializers.Field[Any, Any, Any, Any]]]
    ] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.BooleanField: Truth,
        models.CharField: Text,
        models.PositiveIntegerField: Whole,
        models.PositiveSmallIntegerField: Whole,
        models.TextField: Text,
    }

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[type, dict[str, Any]]:
        kind, told = super().build_standard_field(field_name, model_field)
        told["validators"] = [one for one in told.get("validators", ()) if not isinstance(one, UniqueValidator)]
        if not told["validators"]:
            del told["validators"]  # else the field would have none of its own kind's
        if self.change:
            told["required"] = False
        elif not told.pop("required", True):
            told["default"] = model_field.get_default()
        return kind, told


class RowAnswer(Answer, _OfRow):
    """What is sent of a row."""

    kept = frozenset({"help_text", "choices", "allow_null", "allow_blank", "max_digits", "decimal_places"})
    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.BigAutoField: serializers.IntegerField,
        models.BigIntegerField: serializers.IntegerField,
    }

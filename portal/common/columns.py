"""Columns that say how people are asked for them, so that a form's field is declared with its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from django import forms
from django.core.validators import BaseValidator, MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.text import capfirst

from portal.common.forms import CHECK, SELECT, TEXT

Column = TypeVar("Column", bound="models.Field[Any, Any]")


@dataclass(frozen=True, slots=True)
class Asked:
    """How pages ask for a column. ``words``: its values as pages word them, by default its choices; ``attributes``: of
    the field in HTML."""

    label: Any
    help: Any
    words: Mapping[Any, Any]
    attributes: Mapping[str, Any]

    @property
    def choices(self) -> list[tuple[Any, Any]]:
        """The values and their words, as a form offers them."""
        return [(value, capfirst(words)) for value, words in self.words.items()]


def asked(
    column: Column, label: Any, help_text: Any = "", *, words: Mapping[Any, Any] = MappingProxyType({}), **more: Any
) -> Column:
    """The column, with what its form field shows beyond its type, bounds and default. (``help_text`` of the column
    itself is the API's, in English.)"""
    column.asked = Asked(label, help_text, words or dict(column.choices or ()), more)  # type: ignore[attr-defined]
    return column


def column_of(model: type[models.Model], name: str) -> models.Field[Any, Any]:
    """The column of that name."""
    return cast("models.Field[Any, Any]", model._meta.get_field(name))


def asked_of(column: models.Field[Any, Any]) -> Asked:
    """What that column was ``asked`` with."""
    said: Asked = column.asked  # type: ignore[attr-defined]
    return said


def asked_names(model: type[models.Model]) -> tuple[str, ...]:
    """Its columns that people are ``asked`` for."""
    return tuple(one.name for one in model._meta.concrete_fields if hasattr(one, "asked"))


def within(least: float, most: float) -> list[BaseValidator]:
    """Bounds of a column, a form's field and the API's body."""
    return [MinValueValidator(least), MaxValueValidator(most)]


class RowForm(forms.ModelForm):  # type: ignore[type-arg]  # that is for the type checker alone
    """A form with fields of a row's columns. Whether they fit together is for the service to say, not for the row."""

    class Meta:
        @staticmethod
        def formfield_callback(column: models.Field[Any, Any], **more: Any) -> forms.Field | None:
            return form_field(column, **more)

    def _post_clean(self) -> None:
        pass


def form_field(column: models.Field[Any, Any], **more: Any) -> forms.Field | None:
    """The form's field of an ``asked`` column; ``more``: what is otherwise on this form."""
    said = asked_of(column)
    kept: dict[str, Any] = {"label": said.label, "help_text": said.help, "required": not column.blank, **more}
    if said.words:
        return forms.TypedChoiceField(
            choices=said.choices,
            coerce=column.to_python,
            widget=forms.Select(SELECT),
            **kept,
        )
    if isinstance(column, models.BooleanField):
        return column.formfield(widget=forms.CheckboxInput(CHECK), **{**kept, "required": False})
    if isinstance(column, models.CharField | models.TextField):
        rules = [one for one in column.validators if isinstance(one, RegexValidator)]
        return column.formfield(widget=forms.TextInput({**TEXT, **said.attributes}), validators=rules, **kept)
    limits = {one.code: one.limit_value for one in column.validators if isinstance(one, BaseValidator)}
    return column.formfield(widget=forms.NumberInput({**TEXT, **said.attributes}), **limits, **kept)

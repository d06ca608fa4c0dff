"""A column for a declared sentence: stored as code and data, read as its English text, which can be worded anew."""

from __future__ import annotations

from typing import Any

from django.db import models

from nodes.protocol.wording import stored, told


def nothing() -> str:
    """The default: no sentence."""
    return ""


class SentenceField(models.JSONField):
    """Raises TypeError for a text that is not declared, when it is stored."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"default": nothing, "blank": True, **options})

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(stored(value) if isinstance(value, str) else value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return told(super().from_db_value(value, expression, connection))

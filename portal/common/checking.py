"""Converts Django's ValidationError, of rows and passwords, into our own refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

from portal.common.errors import Fault, Invalid


def faults_of(error: ValidationError, *, where: str = "") -> list[Fault]:
    """All faults of the error; ``where`` names the field for those that name none."""
    named = error.error_dict.items() if hasattr(error, "error_dict") else {where: error.error_list}.items()
    return [
        Fault("" if path == NON_FIELD_ERRORS else path, message, one.code or "invalid")
        for path, errors in named
        for one in errors
        for message in one.messages
    ]


@contextmanager
def checked(where: str = "") -> Iterator[None]:
    """Turns Django's ValidationError into Invalid."""
    try:
        yield
    except ValidationError as error:
        raise Invalid(faults_of(error, where=where)) from error

"""Validation of accounts' e-mail addresses."""

from __future__ import annotations

from django.core.validators import RegexValidator, validate_email
from django.utils.translation import gettext_lazy as _

PRINTABLE = RegexValidator(r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", _("No line breaks or other control characters."))
"""Django accepts an address such as "a<VT>X:"@example.com, which no message can be sent to."""


def address_validate(email: str) -> None:
    """Raises django's ValidationError for an address that mail cannot be sent to."""
    validate_email(email)
    PRINTABLE(email)

"""Which e-mail addresses an account may have."""

from __future__ import annotations

from django.core.validators import RegexValidator, validate_email
from django.utils.translation import gettext_lazy as _

PRINTABLE = RegexValidator(r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", _("No line breaks or other control characters."))
"""Django takes an address such as "a<VT>X:"@example.com, of which no message can be made."""


def address_validate(email: str) -> None:
    """Raises django's ValidationError for what no mail can be sent to."""
    validate_email(email)
    PRINTABLE(email)

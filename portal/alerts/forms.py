"""What people type to silence an alert."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from portal.common.forms import SELECT, reason_field


def _lengths() -> list[tuple[int, Any]]:
    """Choices of hours."""
    hours = [
        (hours, ngettext("%(number)s hour", "%(number)s hours", hours) % {"number": hours}) for hours in (1, 4, 12)
    ]
    days = [
        (24 * days, ngettext("%(number)s day", "%(number)s days", days) % {"number": days}) for days in (1, 3, 7, 30)
    ]
    return hours + days


class SilenceForm(forms.Form):
    """Why to silence an alert, and how long."""

    reason = reason_field(_("For whoever reads the alert; it stands in the audit log."))
    hours = forms.TypedChoiceField(
        label=_("For"), choices=_lengths, initial=24, coerce=lambda hours: timedelta(hours=int(hours)),
        widget=forms.Select(SELECT),
    )  # fmt: skip

"""What people type to silence an alert."""

from __future__ import annotations

from datetime import timedelta

from django import forms
from django.utils.translation import gettext_lazy as _


class SilenceForm(forms.Form):
    """Why to silence an alert, and how long."""

    reason = forms.CharField(
        label=_("Reason"), max_length=500, widget=forms.TextInput({**TEXT, "autocomplete": "off"}),
        help_text=_("For whoever reads the alert; it stands in the audit log."),
    )  # fmt: skip
    hours = forms.TypedChoiceField(
        label=_("For"), choices=_lengths, initial=24, coerce=lambda hours: timedelta(hours=int(hours)),
        widget=forms.Select({"class": "form-select"}),
    )  # fmt: skip

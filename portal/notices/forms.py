"""What people choose to be told of."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import TEXT
from portal.notices.states import JobNotice, Told


class ChoiceForm(forms.Form):
    """The changes of one's jobs that are told by e-mail; of administrators also whether alerts are."""

    kinds = forms.MultipleChoiceField(
        label=_("Write to me when a job of mine"), choices=JobNotice.choices, required=False,
        widget=forms.CheckboxSelectMultiple({"class": "form-check-input"}),
    )  # fmt: skip


class AdminChoiceForm(ChoiceForm):
    """The same for administrators."""

    alerts = forms.BooleanField(
        label=_("Write to me when an alert begins and when it is over"), required=False,
        widget=forms.CheckboxInput({"class": "form-check-input"}),
    )  # fmt: skip


class WebhookForm(forms.Form):
    """The webhook; without a secret the one that is stored stays."""

    url = forms.CharField(
        label=_("Address"), max_length=2000,
        widget=forms.URLInput({**TEXT, "placeholder": "https://hooks.example.org/berth"}),
    )  # fmt: skip
    secret = forms.CharField(
        label=_("Secret"), max_length=200, required=False,
        help_text=_("whsec_ and 24 to 64 random bytes in base64: let one be made, or type your own. Empty: as it is."),
        widget=forms.PasswordInput({**TEXT, "autocomplete": "new-password"}),
    )  # fmt: skip
    kinds = forms.MultipleChoiceField(
        label=_("Tell it when"), choices=Told.choices, required=False,
        widget=forms.CheckboxSelectMultiple({"class": "form-check-input"}),
    )  # fmt: skip

"""What people type about their account."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Scope

_TEXT = {"class": "form-control"}


class LoginForm(forms.Form):
    """Name and password; whether they fit is the service's answer."""

    username = forms.CharField(
        label=_("User name"),
        max_length=64,
        widget=forms.TextInput({**_TEXT, "autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput({**_TEXT, "autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """A new password, with the old one as proof."""

    old = forms.CharField(
        label=_("Current password"),
        strip=False,
        widget=forms.PasswordInput({**_TEXT, "autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label=_("New password"),
        strip=False,
        widget=forms.PasswordInput({**_TEXT, "autocomplete": "new-password"}),
    )


class TokenForm(forms.Form):
    """A new token: what for, what it may, how long."""

    name = forms.CharField(
        label=_("What it is for"), max_length=100, widget=forms.TextInput({**_TEXT, "placeholder": _("laptop")})
    )
    scope = forms.ChoiceField(
        label=_("What it may do"),
        choices=Scope.choices,
        initial=Scope.SUBMIT,
        widget=forms.Select({"class": "form-select"}),
    )
    days = forms.TypedChoiceField(
        label=_("Ends after"),
        coerce=int,
        choices=[(30, _("30 days")), (90, _("90 days")), (365, _("1 year")), (0, _("never"))],
        initial=90,
        widget=forms.Select({"class": "form-select"}),
    )

    def expires_at(self, now: datetime) -> datetime | None:
        """When the token ends; None is never."""
        days: int = self.cleaned_data["days"]
        return now + timedelta(days=days) if days else None

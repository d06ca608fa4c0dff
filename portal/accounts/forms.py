"""Forms of accounts and the audit log."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Audited, Scope
from portal.accounts.resets import MOST_TYPED
from portal.common.forms import TEXT, NameInput

_SEARCH = {**TEXT, "type": "search"}
_YEARS = [MinValueValidator(date(1970, 1, 1)), MaxValueValidator(date(2999, 12, 31))]
_DATE = {**TEXT, "type": "date"}


class LoginForm(forms.Form):
    """Name and password; the service checks them."""

    username = forms.CharField(
        label=_("User name"),
        max_length=64,
        widget=forms.TextInput({**TEXT, "autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """A new password, with the old one as proof."""

    old = forms.CharField(
        label=_("Current password"),
        strip=False,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label=_("New password"),
        strip=False,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "new-password"}),
    )


class ForgottenForm(forms.Form):
    """The account whose password is lost."""

    typed = forms.CharField(
        label=_("User name or e-mail address"),
        max_length=MOST_TYPED,
        widget=forms.TextInput({**TEXT, "autocomplete": "username", "autofocus": True}),
    )


class NewPasswordForm(forms.Form):
    """A new password to replace a lost one."""

    new = forms.CharField(
        label=_("New password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "new-password", "autofocus": True}),
    )


class FirstForm(forms.Form):
    """The first administrator."""

    code = forms.CharField(
        label=_("Code"),
        max_length=100,
        help_text=_("It stands at the end of the log of the portal's web process."),
        widget=forms.TextInput({**TEXT, "autocomplete": "off", "autofocus": True}),
    )
    username = forms.CharField(
        label=_("User name"), max_length=64, widget=forms.TextInput({**TEXT, "autocomplete": "username"})
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "new-password"}),
    )


class TokenForm(forms.Form):
    """A new token: its purpose, scope and expiry."""

    name = forms.CharField(
        label=_("What it is for"), max_length=100, widget=forms.TextInput({**TEXT, "placeholder": _("laptop")})
    )
    scope = forms.ChoiceField(
        label=_("Permissions"),
        choices=Scope.choices,
        initial=Scope.SUBMIT,
        widget=forms.Select({"class": "form-select"}),
    )
    days = forms.TypedChoiceField(
        label=_("Expires after"),
        coerce=int,
        choices=[(30, _("30 days")), (90, _("90 days")), (365, _("1 year")), (0, _("never"))],
        initial=90,
        widget=forms.Select({"class": "form-select"}),
    )

    def expires_at(self, now: datetime) -> datetime | None:
        """When the token expires; None: never."""
        days: int = self.cleaned_data["days"]
        return now + timedelta(days=days) if days else None


class LanguageForm(forms.Form):
    """The language of the user's pages; each under its own name, for people who read no other."""

    language = forms.ChoiceField(
        label=_("Language of the pages"),
        required=False,
        choices=[("", _("as the browser asks")), *settings.LANGUAGES],
        widget=forms.Select({"class": "form-select"}),
    )


class SshKeyForm(forms.Form):
    """A public SSH key."""

    public = forms.CharField(
        label=_("Public key"),
        max_length=10_000,
        help_text=_("The content of a file that ends with .pub, such as ~/.ssh/id_ed25519.pub."),
        widget=forms.Textarea(
            {"class": "form-control mono short", "rows": 3, "spellcheck": "false", "placeholder": "ssh-ed25519 AAAA…"}
        ),
    )
    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=100,
        help_text=_("Empty: the comment at the end of the key."),
        widget=forms.TextInput({**TEXT, "placeholder": _("laptop")}),
    )


class AuditForm(forms.Form):
    """The filters of the audit log."""

    actor = forms.CharField(label=_("Who"), required=False, max_length=64, widget=NameInput("users", _SEARCH))
    action = forms.ChoiceField(
        label=_("What"),
        required=False,
        choices=[("", _("Anything")), *sorted(Audited.choices, key=lambda one: one[1])],
        widget=forms.Select({"class": "form-select"}),
    )
    target = forms.CharField(
        label=_("Target, exactly"), required=False, max_length=255, widget=forms.TextInput(_SEARCH)
    )
    vc = forms.CharField(
        label=_("Virtual cluster"), required=False, max_length=64, widget=NameInput("virtual-clusters", _SEARCH)
    )
    since = forms.DateField(
        label=_("From day"), required=False, validators=_YEARS, widget=forms.DateInput(_DATE, "%Y-%m-%d")
    )
    until = forms.DateField(
        label=_("To day"), required=False, validators=_YEARS, widget=forms.DateInput(_DATE, "%Y-%m-%d")
    )
    older = forms.IntegerField(required=False, min_value=1, max_value=2**62, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Checks that the first day is not after the last."""
        typed = super().clean() or self.cleaned_data
        since, until = typed.get("since"), typed.get("until")
        if since and until and until < since:
            self.add_error("until", _("This is before the first day."))
        return typed

    @property
    def chosen(self) -> dict[str, str]:
        """The valid filters that are set, as in the URL."""
        self.is_valid()
        return {name: str(value) for name, value in self.cleaned_data.items() if value}

    @property
    def filters(self) -> dict[str, Any]:
        """The filters for the selector; includes the last day."""
        self.is_valid()
        typed = {name: value for name, value in self.cleaned_data.items() if value and name != "older"}
        for name, days in (("since", 0), ("until", 1)):
            if day := typed.get(name):
                typed[name] = datetime.combine(day, time(), UTC) + timedelta(days=days)
        return typed

    @property
    def before(self) -> int | None:
        """The id below which the page's entries are."""
        self.is_valid()
        before: int | None = self.cleaned_data.get("older")
        return before

    @property
    def api(self) -> dict[str, str]:
        """The filters under the API's names."""
        return {
            name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
            for name, value in self.filters.items()
        }

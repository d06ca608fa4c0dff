"""Forms of accounts and the audit log."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Audited, Scope
from portal.accounts.resets import MOST_TYPED
from portal.common.filter_forms import PeriodForm
from portal.common.forms import choice_field, day_field, name_field, password_field, text_field

_YEARS = [MinValueValidator(date(1970, 1, 1)), MaxValueValidator(date(2999, 12, 31))]


class LoginForm(forms.Form):
    """Name and password; the service checks them."""

    username = text_field(_("User name"), 64, autocomplete="username", autofocus=True)
    password = password_field(_("Password"), most=1000, autocomplete="current-password")


class PasswordForm(forms.Form):
    """A new password, with the old one as proof."""

    old = password_field(_("Current password"), autocomplete="current-password")
    new = password_field(_("New password"), autocomplete="new-password")


class ForgottenForm(forms.Form):
    """The account whose password is lost."""

    typed = text_field(_("User name or e-mail address"), MOST_TYPED, autocomplete="username", autofocus=True)


class NewPasswordForm(forms.Form):
    """A new password to replace a lost one."""

    new = password_field(_("New password"), most=1000, autocomplete="new-password", autofocus=True)


class FirstForm(forms.Form):
    """The first administrator."""

    code = text_field(
        _("Code"),
        100,
        _("It stands at the end of the log of the portal's web process."),
        autocomplete="off",
        autofocus=True,
    )
    username = text_field(_("User name"), 64, autocomplete="username")
    password = password_field(_("Password"), most=1000, autocomplete="new-password")


class TokenForm(forms.Form):
    """A new token: its purpose, scope and expiry."""

    name = text_field(_("What it is for"), 100, placeholder=_("laptop"))
    scope = choice_field(_("Permissions"), Scope.choices, initial=Scope.SUBMIT)
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

    language = choice_field(
        _("Language of the pages"), [("", _("as the browser asks")), *settings.LANGUAGES], required=False
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
    name = text_field(
        _("Name"), 100, _("Empty: the comment at the end of the key."), required=False, placeholder=_("laptop")
    )


class AuditForm(PeriodForm):
    """The filters of the audit log."""

    actor = name_field("users", _("Who"), required=False, type="search")
    action = choice_field(
        _("What"), [("", _("Anything")), *sorted(Audited.choices, key=lambda one: one[1])], required=False
    )
    target = text_field(_("Target, exactly"), 255, required=False, type="search")
    vc = name_field("virtual-clusters", _("Virtual cluster"), required=False, type="search")
    since = day_field(_("From day"), required=False, validators=_YEARS)
    until = day_field(_("To day"), required=False, validators=_YEARS)
    older = forms.IntegerField(required=False, min_value=1, max_value=2**62, widget=forms.HiddenInput)
    places = ("older",)

    @property
    def api(self) -> dict[str, str]:
        """The filters as the API takes them; the last day is in it."""
        moments = {name: at.isoformat().replace("+00:00", "Z") for name, at in self.period.items()}
        return {name: value for name, value in self.chosen.items() if name != "older"} | moments

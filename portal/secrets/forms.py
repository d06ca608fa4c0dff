"""What people type to store secrets and registry log-ins."""

from __future__ import annotations

from django import forms
from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from portal.common.converters import SecretName, Server
from portal.common.forms import TEXT


class SecretForm(forms.Form):
    """A secret that job files refer to. Its value is write-only."""

    name = forms.CharField(
        label=_("Name"), max_length=64, widget=forms.TextInput({**TEXT, "autocomplete": "off"}),
        validators=[RegexValidator(f"^{SecretName.regex}\\Z", _("Letters, digits, dash and underscore only."))],
        help_text=_("Job files refer to it as <% $secrets.NAME %>."),
    )  # fmt: skip
    value = forms.CharField(
        label=_("Value"), strip=False, max_length=65_536, widget=forms.PasswordInput({**TEXT, "autocomplete": "off"})
    )


class LoginForm(forms.Form):
    """Credentials of an image registry."""

    server = forms.CharField(
        label=_("Registry"), max_length=260,
        widget=forms.TextInput({**TEXT, "autocomplete": "off", "placeholder": "registry.example.org"}),
        validators=[RegexValidator(f"^{Server.regex}\\Z", _("A host, with its port where it has one of its own."))],
    )  # fmt: skip
    username = forms.CharField(
        label=_("User name at the registry"), max_length=255, widget=forms.TextInput({**TEXT, "autocomplete": "off"})
    )
    password = forms.CharField(
        label=_("Password or token"), strip=False, max_length=65_536,
        widget=forms.PasswordInput({**TEXT, "autocomplete": "off"}),
    )  # fmt: skip

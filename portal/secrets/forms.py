"""What people type to store secrets and registry log-ins."""

from __future__ import annotations

from django import forms
from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

from portal.common.converters import SecretName, Server
from portal.common.forms import password_field, text_field


class SecretForm(forms.Form):
    """A secret that job files refer to. Its value is write-only."""

    name = text_field(
        _("Name"),
        64,
        _("Job files refer to it as <% $secrets.NAME %>."),
        validators=[RegexValidator(f"^{SecretName.regex}\\Z", _("Letters, digits, dash and underscore only."))],
        autocomplete="off",
    )
    value = password_field(_("Value"), most=65_536, autocomplete="off")


class LoginForm(forms.Form):
    """Credentials of an image registry."""

    server = text_field(
        _("Registry"),
        260,
        validators=[RegexValidator(f"^{Server.regex}\\Z", _("A host, with its port where it has one of its own."))],
        autocomplete="off",
        placeholder="registry.example.org",
    )
    username = text_field(_("User name at the registry"), 255, autocomplete="off")
    password = password_field(_("Password or token"), most=65_536, autocomplete="off")

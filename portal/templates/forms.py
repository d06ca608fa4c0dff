"""What people type of templates."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.common.forms import choice_field, offer, text_field
from portal.common.names import NAME
from portal.common.versions import version_of
from portal.templates.models import JobTemplate
from portal.templates.selectors import template_homes
from portal.templates.services import template_told


class TemplateFilterForm(forms.Form):
    """Which templates to show."""

    text = text_field(_("Name"), 100, required=False, type="search", placeholder=_("Find a template"))

    @property
    def wanted(self) -> str:
        """A part of the name, empty for all."""
        self.is_valid()
        return str(self.cleaned_data.get("text", ""))


class _TemplateForm(forms.Form):
    """A job file under a name."""

    name = text_field(_("Name"), 64, validators=[NAME], autocomplete="off")
    description = text_field(_("What it is for"), 1000, required=False, autocomplete="off")
    config = forms.CharField(label=_("Job file"), strip=False, widget=forms.Textarea)

    @property
    def values(self) -> dict[str, str]:
        """As the services take them. A form's text comes with Windows line ends."""
        typed = self.cleaned_data
        file = typed["config"].replace("\r\n", "\n")
        return {"name": typed["name"], "description": typed["description"], "file": file}


class TemplateForm(_TemplateForm):
    """A new template."""

    home = choice_field(_("Who may use it"), ())
    field_order = ("name", "home", "description", "config")

    def __init__(self, data: Any = None, *, user: User, **more: Any) -> None:
        super().__init__(data, **more)
        homes = template_homes(user=user)
        choices = [("private", _("Only me")), *((f"vc:{vc}", _("Members of %s") % vc) for vc in homes.vcs)]
        offer(self.fields["home"], [*choices, ("public", _("Everybody"))] if homes.public else choices)

    @property
    def vc(self) -> str | None:
        """The virtual cluster that it is for."""
        kind, _colon, name = self.cleaned_data["home"].partition(":")
        return name if kind == "vc" else None

    @property
    def public(self) -> bool:
        """Whether it is for everybody."""
        return bool(self.cleaned_data["home"] == "public")


class TemplateChangeForm(_TemplateForm):
    """Another name, description or file. ``seen``: the version that the change was made from."""

    seen = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, data: Any = None, *, template: JobTemplate) -> None:
        now = {"name": template.name, "description": template.description, "config": template.file}
        super().__init__(data, initial={**now, "seen": version_of(template_told(template))})

    def renew(self, template: JobTemplate) -> None:
        """What is typed stays, to replace what is there now."""
        self.data = {**{name: self.data[name] for name in self.data}, "seen": version_of(template_told(template))}

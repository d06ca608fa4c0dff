"""Forms for administering accounts and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import ClusterRole
from portal.common.filter_forms import FilterForm
from portal.common.forms import (
    TEXT,
    SeenForm,
    Words,
    checkbox,
    choice_field,
    name_field,
    number_field,
    password_field,
    text_field,
)
from portal.hardware.states import VcRole
from portal.people.bodies import LARGEST_ID, MOST_IDS, USER_NAME


def _number(label: Any, help_text: Any) -> forms.IntegerField:
    return number_field(label, help_text, required=False, min_value=1, max_value=LARGEST_ID)


def _password(**more: Any) -> forms.CharField:
    return password_field(_("Password"), most=1000, autocomplete="new-password", **more)


class _About(forms.Form):
    """Fields of every account."""

    email = forms.EmailField(label=_("E-mail"), required=False, max_length=254, widget=forms.EmailInput(TEXT))
    role = choice_field(
        _("Role"),
        ClusterRole.choices,
        _("Auditors read everything and change nothing; administrators may do everything."),
        initial=ClusterRole.USER,
    )
    uid = _number(
        _("User number (uid)"), _("Jobs run with it on storages; of this account only. Empty: a new account gets one.")
    )
    gid = _number(_("Group number (gid)"), _("The group that goes with it."))
    extra_gids = Words(label=_("Further group numbers"), help_text=_("Separated by commas."))
    groups = Words(
        label=_("Groups"), names="groups",
        help_text=_("Separated by commas; the virtual clusters of a group come with it."),
    )  # fmt: skip

    def clean_extra_gids(self) -> list[int]:
        """Parses the numbers."""
        words: list[str] = self.cleaned_data["extra_gids"]
        if len(words) > MOST_IDS or not all(w.isascii() and w.isdigit() and 0 < int(w) <= LARGEST_ID for w in words):
            raise forms.ValidationError(
                _("At most %(most)s whole numbers from 1 to %(largest)s, separated by commas."),
                params={"most": MOST_IDS, "largest": LARGEST_ID},
            )
        return [int(word) for word in words]


class NewUserForm(_About):
    """A new account."""

    username = text_field(_("User name"), 64, _("Letters, digits, dot, dash and underscore."), validators=[USER_NAME])
    password = _password(required=False, help_text=_("Empty: nobody signs in by a password until one is given."))
    virtual_clusters = Words(
        label=_("Virtual clusters"), names="virtual-clusters", help_text=_("To be a member of; separated by commas.")
    )
    field_order = ("username", "password", "email", "role", "virtual_clusters", "groups", "uid", "gid", "extra_gids")

    @property
    def about(self) -> dict[str, Any]:
        """Arguments for the service; what is not valid is as if it were empty."""
        nothing = {"username": "", "email": "", "role": ClusterRole.USER, "uid": None, "gid": None}
        lists: dict[str, list[Any]] = {"extra_gids": [], "groups": [], "virtual_clusters": []}
        typed = {**nothing, **lists, **self.cleaned_data}
        return {**typed, "password": typed.get("password") or None}


class UserForm(SeenForm, _About):
    """Changes to an account."""

    active = checkbox(
        _("May sign in"), _("Without it the account is signed out everywhere within seconds. Its jobs go on.")
    )
    field_order = ("email", "role", "groups", "uid", "gid", "extra_gids", "active")
    apart = ("groups",)


class PasswordForm(forms.Form):
    """A new password for somebody."""

    password = _password()


class UserFilterForm(FilterForm):
    """Filters of the user list. Invalid ones are ignored, never an error."""

    text = text_field(_("Name or e-mail"), 100, required=False, type="search", placeholder=_("Name or e-mail"))
    role = choice_field(_("Role"), [("", _("Any role")), *ClusterRole.choices], required=False)
    active = choice_field(
        _("Account"), [("", _("Open and disabled")), ("true", _("Open")), ("false", _("Disabled"))], required=False
    )
    vc = name_field(
        "virtual-clusters", _("Virtual cluster"), required=False, type="search", placeholder=_("Virtual cluster")
    )
    after = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    places = ("after",)


class NewGroupForm(forms.Form):
    """A new group."""

    name = text_field(_("Name"), 150, _("Letters, digits, dot, dash and underscore."), validators=[USER_NAME])
    description = text_field(_("Description"), 1000, required=False)


class GroupForm(SeenForm):
    """A group's description, and the virtual clusters it gives with their roles."""

    description = text_field(_("Description"), 1000, required=False)
    member = Words(
        label=_("Its people are members of"), names="virtual-clusters",
        help_text=_("Virtual clusters, separated by commas."),
    )  # fmt: skip
    lead = Words(
        label=_("Its people are leads of"), names="virtual-clusters",
        help_text=_("Virtual clusters, separated by commas."),
    )  # fmt: skip

    @property
    def roles(self) -> Mapping[str, str]:
        """The role in each virtual cluster; named twice: lead."""
        typed = self.cleaned_data
        return dict.fromkeys(typed["member"], VcRole.MEMBER) | dict.fromkeys(typed["lead"], VcRole.LEAD)


class JoinForm(forms.Form):
    """A new member of a group."""

    username = name_field("users", _("User name"))


class TableForm(forms.Form):
    """A table of accounts: a file, or its text as last sent, to be corrected."""

    file = forms.FileField(
        label=_("CSV file"), required=False, widget=forms.FileInput({**TEXT, "accept": ".csv,text/csv"})
    )
    table = forms.CharField(
        label=_("Or its text"), required=False, strip=False, max_length=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        widget=forms.Textarea({**TEXT, "class": "form-control mono", "rows": 8, "spellcheck": "false", "wrap": "off"}),
    )  # fmt: skip
    others = checkbox(
        _("Create the accounts that can be created, even if some rows cannot"),
        _("Otherwise one bad row stops the whole import."),
    )

    def clean(self) -> dict[str, Any]:
        """Sets ``content`` to the bytes of the file or text."""
        typed = self.cleaned_data
        file, text = typed.get("file"), typed.get("table") or ""
        if file is not None and file.size > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self.add_error("file", _("This file is too large for a table of accounts."))
        elif file is not None:
            content = file.read()
            if _is_text(content):
                typed["content"] = content
            else:
                self.add_error("file", _("This file is no text. Save the table as CSV in UTF-8, and choose that."))
        elif text.strip():
            typed["content"] = text.replace("\r\n", "\n").encode()
        elif not self.errors:
            self.add_error("file", _("Choose a file, or write a table below."))
        return typed


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False

"""Forms for joining servers."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import checkbox, number_field, text_field


def _cpu_tasks_at_once() -> forms.BooleanField:
    return checkbox(
        _("Tasks without GPUs may run there"),
        _("Of every virtual cluster, with their secrets. Goes with “Accept at once”; else it is asked on acceptance."),
    )


class JoiningForm(forms.Form):
    """A server to register."""

    name = text_field(
        _("Name"),
        63,
        _("Small letters, digits, dots and dashes; mostly its host name."),
        placeholder="gpu01",
        autocomplete="off",
    )
    public_key = forms.CharField(
        label=_("Its own public key"), max_length=64, required=False,
        widget=forms.TextInput({"class": "form-control mono", "autocomplete": "off"}),
        help_text=_("Of a server on which “python -m nodes key” was run. Empty: a key is made here, and shown once."),
    )  # fmt: skip
    accept = checkbox(
        _("Accept at once"), _("Unseen, with all that its first report says: whoever has its key gets jobs.")
    )
    cpu_tasks = _cpu_tasks_at_once()


class JoinTokenForm(forms.Form):
    """A join token; validated by the service."""

    uses = number_field(_("Servers"), _("So many may join by it."), initial=1)
    hours = number_field(_("Hours"), _("So long it can be used."), initial=24)
    labels = text_field(
        _("Labels"),
        100,
        _("What is the same for all of them, such as rack=3. May be empty."),
        required=False,
        placeholder="rack=3",
    )
    accept = checkbox(
        _("Accept at once"),
        _(
            "Unseen, with all that their first reports say: whoever gets hold of the token gets jobs and their "
            "secrets. Else each server waits until an administrator accepts it on its page."
        ),
    )
    cpu_tasks = _cpu_tasks_at_once()

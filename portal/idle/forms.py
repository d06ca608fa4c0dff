"""Forms of the idle policy's pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SELECT, TEXT, NameInput
from portal.common.moments import MomentField
from portal.idle.limits import LONGEST, MOST_EXTENSIONS
from portal.jobs.models import TAG_LENGTH
from portal.jobs.states import IdleAction


def _number(label: Any, help_text: Any, *, least: int = 1, most: int = LONGEST) -> forms.IntegerField:
    widget = forms.NumberInput({"class": "form-control"})
    return forms.IntegerField(label=label, help_text=help_text, min_value=least, max_value=most, widget=widget)


class IdlePolicyForm(forms.Form):
    """Sets the policy for jobs with idle GPUs. ``seen``: the version shown, so that nobody's change is overwritten
    unseen."""

    action = forms.ChoiceField(
        label=_("What happens to an idle job"), choices=IdleAction.choices, widget=forms.Select(SELECT)
    )
    percent = _number(_("Idle is GPU use below, in percent"), _("All GPUs of a job, by the minute."), most=100)
    minutes = _number(_("Warn after, in minutes"), _("In a row; the first minutes of a task do not count."))
    after_minutes = _number(_("Then act after, in minutes"), _("From the warning; counts where something follows it."))
    extensions = _number(
        _("How often the owner may put it off"), _("In one attempt; 0: never."), least=0, most=MOST_EXTENSIONS
    )
    extension_minutes = _number(_("Each time by how many minutes"), "")
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def shown(self) -> list[forms.BoundField]:
        """The visible fields."""
        return self.visible_fields()

    @property
    def terms(self) -> dict[str, Any]:
        """The values entered, without the version."""
        return {name: value for name, value in self.cleaned_data.items() if name != "seen"}


class IdleExemptionForm(forms.Form):
    """Exempts jobs from the idle policy; empty fields match everything."""

    user = forms.CharField(label=_("User"), required=False, max_length=64, widget=NameInput("users"))
    pattern = forms.CharField(
        label=_("Name of the job"), required=False, max_length=255, help_text=_("* for any text: notebook-*"),
        widget=forms.TextInput(TEXT),
    )  # fmt: skip
    tag = forms.CharField(
        label=_("Tag of the job"), required=False, max_length=TAG_LENGTH, widget=forms.TextInput(TEXT),
        help_text=_("Whoever may tag a job can except it by this."),
    )  # fmt: skip
    job = forms.IntegerField(
        label=_("Number of the job"), required=False, min_value=1, max_value=2**53,
        help_text=_("As in its address."), widget=forms.NumberInput(TEXT),
    )  # fmt: skip
    until = MomentField(label=_("Until"), required=False, help_text=_("Empty: until it is removed."))
    reason = forms.CharField(label=_("Reason"), max_length=500, widget=forms.TextInput(TEXT))

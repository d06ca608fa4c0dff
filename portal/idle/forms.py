"""Forms of the idle policy's pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import choice_field, name_field, number_field, text_field
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

    action = choice_field(_("What happens to an idle job"), IdleAction.choices)
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

    user = name_field("users", _("User"), required=False)
    pattern = text_field(_("Name of the job"), 255, _("* for any text: notebook-*"), required=False)
    tag = text_field(_("Tag of the job"), TAG_LENGTH, _("Whoever may tag a job can except it by this."), required=False)
    job = number_field(_("Number of the job"), _("As in its address."), required=False, min_value=1, max_value=2**53)
    until = MomentField(label=_("Until"), required=False, help_text=_("Empty: until it is removed."))
    reason = text_field(_("Reason"), 500)

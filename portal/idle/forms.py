"""Forms of the idle policy's pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.columns import RowForm
from portal.common.forms import name_field, number_field
from portal.common.moments import MomentField
from portal.idle.models import TERMS, IdleExemption, IdlePolicy


class IdlePolicyForm(RowForm):
    """Sets the policy for jobs with idle GPUs. ``seen``: the version shown, so that nobody's change is overwritten
    unseen."""

    class Meta(RowForm.Meta):
        model = IdlePolicy
        fields = TERMS

    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def shown(self) -> list[forms.BoundField]:
        """The visible fields."""
        return self.visible_fields()

    @property
    def terms(self) -> dict[str, Any]:
        """The values entered, without the version."""
        return {name: value for name, value in self.cleaned_data.items() if name != "seen"}


class IdleExemptionForm(RowForm):
    """Exempts jobs from the idle policy; empty fields match everything."""

    user = name_field("users", _("User"), required=False)
    job = number_field(_("Number of the job"), _("As in its address."), required=False, min_value=1, max_value=2**53)
    until = MomentField(label=_("Until"), required=False, help_text=_("Empty: until it is removed."))
    field_order = ("user", "pattern", "tag", "job", "until")

    class Meta(RowForm.Meta):
        model = IdleExemption
        fields = ("pattern", "tag", "reason")

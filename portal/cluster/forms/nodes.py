"""Forms of administrators about nodes."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import reason_field
from portal.hardware.states import NodeIntent


class PutBackForm(forms.Form):
    """Why fenced-off hardware is good again."""

    reason = reason_field(
        _("What was done, or why it is no matter: it stands among the node's events and in the audit log.")
    )


class GiveUpForm(forms.Form):
    """Why a silent node will not come back."""

    reason = reason_field(_("What became of it: it stands among the node's events and in the audit log."))


class StrangerForm(forms.Form):
    """Why an unknown container is stopped."""

    reason = reason_field(_("It stands among the node's events and in the audit log."), required=False)


class IntentForm(forms.Form):
    """A node's new intent, and why."""

    intent = forms.ChoiceField(
        choices=NodeIntent.choices,
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), _("Nothing was changed: choose what is wanted of the node.")
        ),
    )
    reason = reason_field(_("Everybody reads it on the map and on this page."), required=False)

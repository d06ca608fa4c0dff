"""What administrators choose on the cluster page."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.clusters.states import NodeIntent


class IntentForm(forms.Form):
    """What is wanted of a node, and why."""

    intent = forms.ChoiceField(choices=NodeIntent.choices)
    reason = forms.CharField(label=_("Reason"), required=False, max_length=500)

"""Forms of administrators about SKUs."""

from __future__ import annotations

from decimal import Decimal

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import TEXT, number_field


class PriceForm(forms.Form):
    """The price of a GPU hour."""

    price = forms.DecimalField(
        label=_("Price of a GPU hour"), required=False, min_value=0, max_digits=10, decimal_places=4,
        widget=forms.NumberInput({**TEXT, "step": "any"}),
    )  # fmt: skip


class ShareForm(forms.Form):
    """CPU and memory per GPU."""

    cores = forms.DecimalField(
        label=_("CPU cores"), min_value=Decimal("0.001"), max_value=100_000, decimal_places=3,
        widget=forms.NumberInput({**TEXT, "step": "any"}),
    )  # fmt: skip
    memory = number_field(_("Memory, MB"), min_value=1, max_value=2**31 - 1)

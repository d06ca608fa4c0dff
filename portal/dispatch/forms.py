"""What an administrator types to change a virtual cluster's quota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import Kind
from portal.clusters.selectors.quotas import LineKey, Lines

_TEXT = {"class": "form-control"}


class QuotaForm(forms.Form):
    """A number of cells for each type; from when, and until when, where the change is not meant for now and good."""

    starts_at = forms.DateTimeField(
        label=_("From"), required=False, widget=forms.DateTimeInput({**_TEXT, "type": "datetime-local"}),
        help_text=_("Empty: at once."),
    )  # fmt: skip
    ends_at = forms.DateTimeField(
        label=_("Until"), required=False, widget=forms.DateTimeInput({**_TEXT, "type": "datetime-local"}),
        help_text=_("Then the quota of today comes back by itself. Empty: for good."),
    )  # fmt: skip
    reason = forms.CharField(label=_("Reason"), required=False, max_length=500, widget=forms.TextInput(_TEXT))

    def __init__(self, data: Any, *, vc: VirtualCluster, kinds: Sequence[Kind], now: Lines) -> None:
        super().__init__(data)
        self.keys: dict[str, LineKey] = {}
        for kind in kinds:
            for chain in kind.chains if len(kind.chains) > 1 else [""]:
                self._add(LineKey(vc.pk, kind.row.pk, chain), kind, now)
        self.before = {key: now.get(key, 0) for key in self.keys.values()}

    def _add(self, key: LineKey, kind: Kind, now: Lines) -> None:
        name = f"cells-{key.cell_type_id}-{key.chain}"
        self.keys[name] = key
        where = f" ({key.chain})" if key.chain else ""
        gpus = "" if kind.gpus == 1 else _(" of %(gpus)s GPUs each") % {"gpus": kind.gpus}
        self.fields[name] = forms.IntegerField(
            label=f"{kind.row.name}{where}{gpus}", min_value=0, max_value=1_000_000, initial=now.get(key, 0),
            widget=forms.NumberInput(_TEXT),
        )  # fmt: skip

    @property
    def cells(self) -> list[forms.BoundField]:
        """The numbers of cells."""
        return [self[name] for name in self.keys]

    @property
    def lines(self) -> Lines:
        """The lines that shall be different."""
        typed = {key: self.cleaned_data[name] for name, key in self.keys.items()}
        return {key: count for key, count in typed.items() if count != self.before[key]}

"""What an administrator types to change a virtual cluster's quota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import Kind
from portal.clusters.selectors.quotas import LineKey, Lines
from portal.common.forms import SeenForm

_TEXT = {"class": "form-control"}


class QuotaForm(SeenForm):
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

    def __init__(self, data: Any, *, vc: VirtualCluster, kinds: Sequence[Kind], now: Lines, version: int) -> None:
        super().__init__(data, present={}, seen=str(version))
        self.keys: dict[str, LineKey] = {}
        for kind in kinds:
            for chain in kind.chains if len(kind.chains) > 1 else [""]:
                self._add(LineKey(vc.pk, kind.row.pk, chain), kind, now)
        self.before = {key: now.get(key, 0) for key in self.keys.values()}
        self.present = {name: self.before[key] for name, key in self.keys.items()}

    def _add(self, key: LineKey, kind: Kind, now: Lines) -> None:
        name = f"cells-{key.cell_type_id}-{key.chain}"
        self.keys[name] = key
        where = f" ({key.chain})" if key.chain else ""
        gpus = "" if kind.gpus == 1 else _(" of %(gpus)s GPUs each") % {"gpus": kind.gpus}
        self.fields[name] = forms.IntegerField(
            label=f"{kind.row.name}{where}{gpus}", min_value=0, max_value=1_000_000, initial=now.get(key, 0),
            widget=forms.NumberInput(_TEXT), show_hidden_initial=True,
        )  # fmt: skip

    @property
    def cells(self) -> list[forms.BoundField]:
        """The numbers of cells."""
        return [self[name] for name in self.keys]

    @property
    def version(self) -> int | None:
        """Of the quotas that the page showed; None where it does not say."""
        seen = self.cleaned_data["seen"]
        return int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None

    @property
    def moves(self) -> list[tuple[Any, int, int]]:
        """What shall be different: the cell type's words, how many it has now, how many then."""
        changed = self.lines
        fields = {key: self.fields[name] for name, key in self.keys.items()}
        return [(fields[key].label, self.before[key], count) for key, count in changed.items()]

    @property
    def lines(self) -> Lines:
        """The lines that shall be different."""
        typed = {key: self.cleaned_data[name] for name, key in self.keys.items()}
        return {key: count for key, count in typed.items() if count != self.before[key]}

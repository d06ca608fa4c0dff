"""The form of a virtual cluster's quota."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.errors import Fault, Invalid, Refused
from portal.common.forms import TEXT, SeenForm, text_field
from portal.common.moments import MomentField
from portal.common.sentences import sentence
from portal.teams.models import VirtualCluster
from portal.teams.selectors.details import Kind
from portal.teams.selectors.quotas import Chains, LineKey, Lines


class QuotaForm(SeenForm):
    """A number of cells for each type; optionally from when, and until when."""

    starts_at = MomentField(label=_("From"), required=False, help_text=_("Empty: at once."))
    ends_at = MomentField(
        label=_("Until"), required=False, help_text=_("Then the quota of today comes back by itself. Empty: for good.")
    )
    reason = text_field(_("Reason"), 500, required=False)

    def __init__(
        self,
        data: Any,
        *,
        vc: VirtualCluster,
        kinds: Sequence[Kind],
        now: Lines,
        there: Mapping[str, int],
        version: int,
    ) -> None:
        """``there``: the cluster's GPUs, by SKU."""
        super().__init__(data, present={}, seen=str(version))
        skus, self._others = {kind.row.pk: kind for kind in kinds}, dict.fromkeys(there, 0)
        for line, count in now.items():
            if line.vc_id != vc.pk and (kind := skus.get(line.cell_type_id)):
                self._others[kind.row.sku.name] += count * kind.gpus
        self._there = there
        self._skus = {kind.row.name: kind.row.sku.name for kind in kinds}
        self._types: dict[str, str] = {}
        self.keys: dict[str, LineKey] = {}
        chains = Chains(
            {kind.row.pk: kind.chains for kind in kinds}, {kind.row.pk: kind.row.sku.name for kind in kinds}
        )
        now = chains.meant(now)
        for kind in kinds:
            there_too = [key.chain for key in now if (key.vc_id, key.cell_type_id) == (vc.pk, kind.row.pk)]
            keys = [chains.stored(LineKey(vc.pk, kind.row.pk, chain)) for chain in [*(kind.chains or [""]), *there_too]]
            for key in dict.fromkeys(keys):  # lines of chains that are gone as well
                self._add(key, kind, now, chains.needed(key))
        self.before = {key: now.get(key, 0) for key in self.keys.values()}
        self.present = {name: self.before[key] for name, key in self.keys.items()}

    def _add(self, key: LineKey, kind: Kind, now: Lines, chain: str) -> None:
        name = f"cells-{key.cell_type_id}-{key.chain}"
        self.keys[name], self._types[name] = key, kind.row.name
        where = f" ({chain})" if chain else ""
        gpus = "" if kind.gpus == 1 else _(" of %(gpus)s GPUs each") % {"gpus": kind.gpus}
        self.fields[name] = forms.IntegerField(
            label=f"{kind.row.name}{where}{gpus}", min_value=0, max_value=1_000_000, initial=now.get(key, 0),
            widget=forms.NumberInput(TEXT), show_hidden_initial=True, help_text=self._known(kind.row.sku.name),
        )  # fmt: skip

    def _known(self, sku: str) -> str:
        words = _("Of %(there)s %(sku)s GPUs in the cluster %(others)s are guaranteed to other teams.")
        return words % {"there": self._there[sku], "sku": sku, "others": self._others[sku]}

    @property
    def cells(self) -> list[forms.BoundField]:
        """The cell count fields."""
        return [self[name] for name in self.keys]

    @property
    def version(self) -> int | None:
        """The version of the quotas that the page showed; None if missing."""
        seen = self.cleaned_data["seen"]
        return int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None

    @property
    def moves(self) -> list[tuple[Any, int, int]]:
        """Changes: the cell type's label, the number of cells now, and the new one."""
        changed = self.lines
        fields = {key: self.fields[name] for name, key in self.keys.items()}
        return [(fields[key].label, self.before[key], count) for key, count in changed.items()]

    @property
    def lines(self) -> Lines:
        """The changed lines, of those with a valid number."""
        typed = {key: self.cleaned_data.get(name) for name, key in self.keys.items()}
        return {key: count for key, count in typed.items() if count is not None and count != self.before[key]}

    def refuse(self, refusal: Refused) -> None:
        """Shows each fault beside the fields it concerns; one that concerns none above the form."""
        if not isinstance(refusal, Invalid):
            self.add_error(None, refusal.detail)
            return
        lines = self.lines  # before add_error, which drops the field from cleaned_data
        changed = [name for name, key in self.keys.items() if key in lines]
        for fault in refusal.faults:
            places: Sequence[str | None] = self._places(fault, changed) or [None]
            for name in places:
                self.add_error(name, sentence(fault.message))

    def _places(self, fault: Fault, changed: Sequence[str]) -> Sequence[str]:
        """Names of a fault's fields: for a cell level that is short, its changed number, else those of its SKU, else
        (as for GPUs promised to jobs) every changed one."""
        if fault.path in self.fields:
            return [fault.path]
        if fault.code == "overlap":
            return ["starts_at"]
        short = fault.path.removeprefix("quota.")
        if fault.code != "too_large" or short not in self._skus:
            return changed
        level = [name for name in changed if self._types[name] == short]
        return level or [name for name in changed if self._skus[self._types[name]] == self._skus[short]] or changed

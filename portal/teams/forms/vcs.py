"""Forms of administrators and leads on the pages of the cluster and of virtual clusters."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.columns import RowForm, asked_of, column_of
from portal.common.forms import choice_field, day_field, name_field, number_field, offer
from portal.hardware.models import Sku
from portal.hardware.states import VcRole
from portal.teams.models import RULES, VirtualCluster
from portal.teams.models.teams import MOST
from portal.teams.services.rules import CAPS, Limit

_LOANS = {
    "max_borrow": _("%(sku)s: GPUs it may have on loan"),
    "max_lend": _("%(sku)s: idle GPUs of its own that it lends"),
}


class RulesForm(RowForm):
    """Rules of a virtual cluster; without ``every`` only those a lead may change."""

    field_order = ("user_gpus", "user_factor", "default_borrow", "member_class", "lead_class", "class_gpus")

    class Meta(RowForm.Meta):
        model = VirtualCluster
        fields = (*RULES, "description")

    def __init__(self, data: Any, *, vc: VirtualCluster, every: bool) -> None:
        super().__init__(data, instance=vc)
        if not every:
            for name in self.fields.keys() - CAPS:
                del self.fields[name]


class LoanForm(forms.Form):
    """Limits of borrowing and lending per SKU; empty: no limit."""

    def __init__(self, data: Any, *, vc: VirtualCluster) -> None:
        super().__init__(data)
        self.skus = list(Sku.objects.order_by("name"))
        now = {limit.sku_id: limit for limit in vc.loan_limits.all()}
        for sku in self.skus:
            limit = now.get(sku.pk)
            for name, label in _LOANS.items():
                self.fields[f"{name}-{sku.pk}"] = number_field(
                    label % {"sku": sku.name},
                    _("Empty: no limit."),
                    required=False,
                    min_value=0,
                    max_value=MOST,
                    initial=getattr(limit, name, None),
                )

    @property
    def limits(self) -> list[Limit]:
        """The limits as typed, of the SKUs that have one."""
        typed = self.cleaned_data
        every = [Limit(sku.name, typed[f"max_borrow-{sku.pk}"], typed[f"max_lend-{sku.pk}"]) for sku in self.skus]
        return [one for one in every if one.max_borrow is not None or one.max_lend is not None]

    @property
    def changed(self) -> bool:
        """Whether any differs from the current one."""
        return any(self.cleaned_data[name] != field.initial for name, field in self.fields.items())


class NewVcForm(RowForm):
    """A new virtual cluster. The right to the host network must be chosen: nobody has it unasked."""

    class Meta(RowForm.Meta):
        model = VirtualCluster
        fields = ("name", "description", "host_network")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        offer(
            self.fields["host_network"],
            [("", _("Choose …")), *asked_of(column_of(VirtualCluster, "host_network")).choices],
        )
        self.fields["host_network"].initial = None


class MemberForm(forms.Form):
    """A user's or group's role."""

    name = name_field("members", _("Name"), most=150)
    kind = choice_field(_("Type"), [("user", _("User")), ("group", _("Group"))])
    role = choice_field(_("Role"), VcRole.choices)


class FirmRightForm(forms.Form):
    """A user's right to non-preemptible jobs."""

    username = name_field("users", _("User"))
    gpus = number_field(_("GPUs"), min_value=1, max_value=MOST)
    last_day = day_field(_("Last day"))

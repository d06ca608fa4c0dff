"""Forms of administrators and leads on the pages of the cluster and of virtual clusters."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SELECT, TEXT, NameInput
from portal.common.names import NAME
from portal.common.priorities import PRIORITY_CLASSES, priority_name
from portal.hardware.models import Sku
from portal.hardware.states import Borrow, VcRole
from portal.teams.models import VirtualCluster
from portal.teams.services.rules import CAPS, Limit

_CLASSES = [(name, _(priority_name(number))) for name, number in PRIORITY_CLASSES.items()]
MOST = 1_000_000


def _number(label: Any, help_text: Any) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, help_text=help_text, required=False, min_value=0, max_value=MOST, widget=forms.NumberInput(TEXT)
    )


def _host_network(*before: tuple[Any, Any]) -> forms.TypedChoiceField:
    """A choice of the right to the host network; ``before``: choices above yes and no."""
    return forms.TypedChoiceField(
        label=_("Jobs of several tasks"),
        help_text=_(
            "Their tasks share the network of their servers: they listen on a server's ports, and reach whatever "
            "listens on its loopback, also what answers without a password. A job of one task never does."
        ),
        choices=[
            *before,
            (False, capfirst(_("refused: they need the host network"))),
            (True, capfirst(_("accepted, on the host network"))),
        ],
        coerce=lambda value: value == "True",
        widget=forms.Select(SELECT),
    )


_LOANS = {
    "max_borrow": _("%(sku)s: GPUs it may have on loan"),
    "max_lend": _("%(sku)s: idle GPUs of its own that it lends"),
}


class RulesForm(forms.Form):
    """Rules of a virtual cluster; without ``every`` only those a lead may change."""

    user_gpus = _number(_("GPUs one user may hold"), _("Guaranteed jobs together; empty: no limit."))
    user_factor = forms.FloatField(
        label=_("Part of the quota one user may hold"),
        help_text=_("0.5 is half of it; empty: no limit."),
        required=False,
        min_value=0.001,
        max_value=1000,
        widget=forms.NumberInput({**TEXT, "step": "any"}),
    )
    default_borrow = forms.ChoiceField(
        label=_("Jobs borrow"),
        help_text=_("Start on idle GPUs before the quota is free, for jobs that say nothing about it."),
        choices=Borrow.choices,
        widget=forms.Select(SELECT),
    )
    member_class = forms.ChoiceField(label=_("Highest class of members"), choices=_CLASSES, widget=forms.Select(SELECT))
    lead_class = forms.ChoiceField(label=_("Highest class of leads"), choices=_CLASSES, widget=forms.Select(SELECT))
    class_gpus = _number(_("GPUs of Production and Critical"), _("All such jobs together; empty: no limit."))
    weight = forms.IntegerField(
        label=_("Weight"),
        help_text=_("Its share of idle GPUs beside others'."),
        min_value=1,
        max_value=MOST,
        widget=forms.NumberInput(TEXT),
    )
    log_quota_gb = _number(
        _("GB of logs that are kept"),
        _("Of jobs that are over; the longest ended give way. 0: all; empty: as is usual in this portal."),
    )
    default_profile = forms.ChoiceField(
        label=_("Containers run as"),
        help_text=_("As root a job reads every file of a storage that it mounts read-only."),
        choices=[("root", capfirst(_("root, unless the job says user"))), ("user", capfirst(_("the user, always")))],
        widget=forms.Select(SELECT),
    )
    host_network = _host_network()
    description = forms.CharField(label=_("Description"), required=False, max_length=1000, widget=forms.TextInput(TEXT))

    def __init__(self, data: Any, *, vc: VirtualCluster, every: bool) -> None:
        super().__init__(data, initial={name: getattr(vc, name) for name in self.base_fields})
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
                field = self.fields[f"{name}-{sku.pk}"] = _number(label % {"sku": sku.name}, _("Empty: no limit."))
                field.initial = getattr(limit, name, None)

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


class NewVcForm(forms.Form):
    """A new virtual cluster. The right to the host network must be chosen: nobody has it unasked."""

    name = forms.CharField(
        label=_("Name"), max_length=64, validators=[NAME], widget=forms.TextInput(TEXT),
        help_text=_("Letters, digits, dot, dash and underscore. Job files call it so."),
    )  # fmt: skip
    description = forms.CharField(label=_("Description"), required=False, max_length=1000, widget=forms.TextInput(TEXT))
    host_network = _host_network(("", _("Choose …")))


class MemberForm(forms.Form):
    """A user's or group's role."""

    name = forms.CharField(label=_("Name"), max_length=150, widget=NameInput("members"))
    kind = forms.ChoiceField(
        label=_("Type"), choices=[("user", _("User")), ("group", _("Group"))], widget=forms.Select(SELECT)
    )
    role = forms.ChoiceField(label=_("Role"), choices=VcRole.choices, widget=forms.Select(SELECT))


class FirmRightForm(forms.Form):
    """A user's right to non-preemptible jobs."""

    username = forms.CharField(label=_("User"), max_length=64, widget=NameInput("users"))
    gpus = forms.IntegerField(label=_("GPUs"), min_value=1, max_value=MOST, widget=forms.NumberInput(TEXT))
    last_day = forms.DateField(label=_("Last day"), widget=forms.DateInput({**TEXT, "type": "date"}))

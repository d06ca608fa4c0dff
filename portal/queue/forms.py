"""Forms of the queue's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.common.filter_forms import FilterForm
from portal.common.forms import SELECT, choice_field, number_field, offer
from portal.queue.services.order import DEEPEST, Place
from portal.teams.forms.choices import vc_choices


class QueueForm(FilterForm):
    """Selects whose queue to show. Impossible values are ignored, never an error."""

    vc = choice_field(_("Virtual cluster"), (), required=False)
    first = forms.IntegerField(required=False, min_value=0, max_value=10**9, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        offer(self.fields["vc"], vc_choices(user=user))


class PlaceForm(forms.Form):
    """Moves a waiting job among ``others``: their labels by id, in the order of the queue."""

    to = forms.ChoiceField(label=_("Where to"), widget=forms.RadioSelect({"class": "form-check-input"}))
    beside = forms.TypedChoiceField(
        label=_("The other job"),
        required=False,
        coerce=int,
        empty_value=None,
        widget=forms.Select(SELECT),
        help_text=_("For before and behind it."),
    )
    number = number_field(_("Place"), required=False, min_value=1)

    def __init__(self, data: Any, *, others: Mapping[int, str], moved: bool) -> None:
        super().__init__(data)
        self.others = [*others]
        ways = {"front": _("To the front"), "before": _("Before another job"), "after": _("Behind another job")}
        ways |= {"number": _("To a place by its number")}
        if moved:
            ways |= {"own": _("Back to its own place")}
        listed: dict[str, list[tuple[Any, Any]]] = {
            "to": [*ways.items()],
            "beside": [("", _("Choose a job")), *others.items()],
        }
        for name, choices in listed.items():
            offer(self.fields[name], choices)
        self.fields["beside"].error_messages["invalid_choice"] = _("This job does not wait here any more.")
        last = min(len(self.others) + 1, DEEPEST)
        number = self.fields["number"]
        number.help_text = _("From 1, which is the front, to %(last)d.") % {"last": last}
        number.validators.append(MaxValueValidator(last))
        number.widget.attrs["max"] = last

    def clean(self) -> None:
        """Requires what the chosen way needs."""
        to, typed = self.cleaned_data.get("to"), self.cleaned_data
        if to in {"before", "after"} and typed.get("beside") is None and "beside" not in self.errors:
            self.add_error("beside", _("Choose the other job."))
        if to == "number" and typed.get("number") is None and "number" not in self.errors:
            self.add_error("number", _("Type the number of the place."))
        for unused in {"beside", "number"} - {"beside" if to in {"before", "after"} else to}:
            self.errors.pop(unused, None)

    def place(self, seen: Sequence[int]) -> Place:
        """The place for ``job_place``; ``seen``: the order that it was chosen from."""
        to, typed = self.cleaned_data["to"], self.cleaned_data
        before = typed["beside"] if to == "before" else None
        after = typed["beside"] if to == "after" else None
        if to == "number" and typed["number"] > 1:
            after = self.others[typed["number"] - 2]
        return Place(before, after, own=to == "own", seen=tuple(seen))

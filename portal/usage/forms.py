"""The form of the usage page; the address keeps its values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.forms import choice_field, day_field, name_field, offer
from portal.hardware.models import Sku
from portal.teams.forms.choices import vc_choices
from portal.usage.selectors.usage_report import UsageQuery

MOST_DAYS = 3660
MOST_BARS = 400
GROUPS = [("vc", _("Virtual cluster")), ("user", _("User")), ("sku", _("SKU"))]
PERIODS = [("day", _("Day")), ("week", _("Week")), ("month", _("Month"))]


LAST_YEAR = 2999


class UsageForm(forms.Form):
    """Selects period, grouping, and whose usage to report."""

    first = day_field(_("From"), required=False)
    last = day_field(_("To"), required=False)
    by = choice_field(_("Group by"), GROUPS, required=False)
    per = choice_field(_("Interval"), PERIODS, required=False)
    vc = choice_field(_("Virtual cluster"), (), required=False)
    sku = choice_field(_("SKU"), (), required=False)
    user = name_field("users", _("User"), required=False)

    def __init__(self, given: Mapping[str, Any], *, user: User, today: date) -> None:
        """Fills in defaults: this month, by virtual cluster and day."""
        start = {"first": today.replace(day=1).isoformat(), "last": today.isoformat(), "by": "vc", "per": "day"}
        super().__init__({**start, **{name: value for name, value in given.items() if value}})
        offer(self.fields["vc"], vc_choices(user=user, action=Action.USAGE_READ, every=_("Any")))
        skus = Sku.objects.values_list("name", flat=True)
        offer(self.fields["sku"], [("", _("Any")), *((name, name) for name in skus)])

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        first, last = found.get("first"), found.get("last")
        if first and last and first > last:
            self.add_error("first", _("This lies after the last day."))
        elif last and last.year > LAST_YEAR:
            self.add_error("last", _("This is too far ahead."))
        elif first and last and last - first > timedelta(days=MOST_DAYS):
            self.add_error("first", _("Ask for ten years at most."))
        elif first and last and found.get("per") == "day" and last - first > timedelta(days=MOST_BARS):
            self.add_error("per", _("Choose weeks or months for so long a time."))
        return found

    def query(self, by: str) -> UsageQuery:
        """The report grouped by this; the form must be valid."""
        typed = self.cleaned_data
        whose = {name: typed[name] or None for name in ("vc", "user", "sku")}
        return UsageQuery(typed["first"], typed["last"], (by,), **whose)

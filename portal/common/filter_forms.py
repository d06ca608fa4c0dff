"""Forms of lists: filters that stand in the page's address. What is not valid is left out and told beside its field."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.utils.translation import gettext_lazy as _


class FilterForm(forms.Form):
    """Filters of a list. ``places``: fields that say which page of it is shown."""

    places: tuple[str, ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        """The valid filters that are set, as in the address."""
        self.is_valid()
        return {name: "on" if value is True else value for name, value in self.cleaned_data.items() if value}

    def query(self, **other: Any) -> str:
        """The address's query with these values replaced; it begins with the first page."""
        wanted = {**self.chosen, **dict.fromkeys(self.places), **other}
        return urlencode({name: value for name, value in wanted.items() if value}, doseq=True)


class PeriodForm(FilterForm):
    """Filters with a first day (``since``) and a last one (``until``)."""

    def clean(self) -> dict[str, Any]:
        """Checks that the first day is not after the last."""
        typed = super().clean() or self.cleaned_data
        since, until = typed.get("since"), typed.get("until")
        if since and until and until < since:
            self.add_error("until", _("This is before the first day."))
        return typed

    @property
    def period(self) -> dict[str, datetime]:
        """What of ``since`` and ``until`` is set, as moments: the first day's start and the last day's end, in UTC."""
        days = {"since": self.chosen.get("since"), "until": _after(self.chosen.get("until"))}
        return {name: datetime.combine(one, time(), UTC) for name, one in days.items() if one}


def _after(day: date | None) -> date | None:
    """The next day; None after the last of all, beyond which nothing is to be excluded."""
    return day + timedelta(days=1) if day and day < date.max else None

"""Filters of the job list, and its predefined views."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.common.forms import NameInput, choice_field
from portal.common.priorities import PRIORITY_CLASSES, priority_name
from portal.job_pages.selectors import ORDERS, JobFilter
from portal.jobs.models import TAG_LENGTH
from portal.jobs.states import JOB_LIVE, JOB_OVER, JobState
from portal.teams.selectors.visible import vc_restrict

GROUPS = {"live": JOB_LIVE, "over": JOB_OVER}
EVERYBODYS = [
    (_("All"), ""),
    (_("Mine"), "mine=on"),
    (_("Mine, unfinished"), "mine=on&state=live"),
    (_("Mine that failed"), "mine=on&state=failed"),
]
"""Predefined views: names and filters."""

_CHECKS = {"class": "form-check-input"}


def _text(label: Any, most: int, **attributes: Any) -> forms.CharField:
    shown = {"class": "form-control", "placeholder": label, **attributes}
    return forms.CharField(label=label, required=False, max_length=most, widget=forms.TextInput(shown))


def _day(label: Any) -> forms.DateField:
    return forms.DateField(
        label=label, required=False, widget=forms.DateInput({"class": "form-control", "type": "date"}, "%Y-%m-%d"),
        error_messages={"invalid": _("There is no such day; write it as 2026-12-31.")},
    )  # fmt: skip


class JobFilterForm(forms.Form):
    """Filters of the list. Invalid values are ignored and reported beside their fields."""

    text = _text(_("Name of the job"), 100, type="search")
    user = forms.CharField(
        label=_("User"), required=False, max_length=100,
        widget=NameInput("users", {"class": "form-control", "placeholder": _("User"), "type": "search"}),
    )  # fmt: skip
    state = forms.MultipleChoiceField(
        label=_("State"),
        required=False,
        choices=[("live", _("Unfinished")), ("over", _("Finished")), *JobState.choices],
        widget=forms.CheckboxSelectMultiple(_CHECKS),
    )
    priority = forms.MultipleChoiceField(
        label=_("Priority"),
        required=False,
        choices=[(name, _(priority_name(number))) for name, number in PRIORITY_CLASSES.items()],
        widget=forms.CheckboxSelectMultiple(_CHECKS),
    )
    vc = choice_field(_("Virtual cluster"), (), required=False)
    tag = _text(_("Tag"), TAG_LENGTH)
    since = _day(_("Submitted from"))
    until = _day(_("Submitted until"))
    sort = choice_field(
        _("Order"),
        [
            ("", _("Newest first")),
            ("oldest", _("Oldest first")),
            ("name", _("By name")),
            ("priority", _("By priority")),
        ],
        required=False,
    )
    mine = forms.BooleanField(label=_("Only mine"), required=False, widget=forms.CheckboxInput(_CHECKS))
    before = forms.IntegerField(required=False, min_value=1, max_value=2**62, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        self.reader = user
        field = self.fields["vc"]
        assert isinstance(field, forms.ChoiceField)
        names = vc_restrict(user=user).values_list("name", flat=True)
        field.choices = [("", _("Any virtual cluster")), *((name, name) for name in names)]

    @property
    def chosen(self) -> dict[str, Any]:
        """The valid filters set, as in the address."""
        self.is_valid()
        return {name: "on" if value is True else value for name, value in self.cleaned_data.items() if value}

    @property
    def count(self) -> int:
        """The number of filters set, not counting order and page."""
        return len(self.chosen.keys() - {"sort", "before"})

    @property
    def misread(self) -> dict[str, tuple[str, list[str]]]:
        """Invalid input and the errors, by field name."""
        self.is_valid()
        return {name: (_typed(self[name].value()), [str(why) for why in self.errors[name]]) for name in self.errors}

    def clean(self) -> dict[str, Any]:
        """Checks that the first day is not after the last."""
        typed = super().clean() or self.cleaned_data
        since, until = typed.get("since"), typed.get("until")
        if since and until and until < since:
            self.add_error("until", _("This is before the first day."))
        return typed

    def query(self, **other: Any) -> str:
        """The address's query with these values replaced; paging restarts."""
        wanted = {**self.chosen, "before": None, **other}
        return urlencode({name: value for name, value in wanted.items() if value}, doseq=True)

    def to_filter(self) -> JobFilter:
        """The filter for the selector."""
        chosen = self.chosen
        return JobFilter(
            states=frozenset().union(*(GROUPS.get(one, {one}) for one in chosen.get("state", ()))),
            priorities=[PRIORITY_CLASSES[one] for one in chosen.get("priority", ())],
            vc=chosen.get("vc", ""),
            mine=self.reader if chosen.get("mine") else None,
            user=chosen.get("user", ""),
            text=chosen.get("text", ""),
            tag=chosen.get("tag", ""),
            since=_begin(chosen.get("since")),
            until=_begin(chosen.get("until"), days=1),
            order=ORDERS[chosen.get("sort", "")],
            before=chosen.get("before"),
        )


def _typed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _begin(day: Any, days: int = 0) -> datetime | None:
    """The start of the day, or of one some days later, in UTC."""
    try:
        return None if day is None else datetime.combine(day, time(), UTC) + timedelta(days=days)
    except OverflowError:
        return None  # beyond the last date there is nothing to exclude

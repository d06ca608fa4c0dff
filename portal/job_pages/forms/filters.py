"""Filters of the job list, and its predefined views."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.common.filter_forms import PeriodForm
from portal.common.forms import CHECK, choice_field, day_field, name_field, offer, text_field
from portal.common.priorities import PRIORITY_CLASSES, priority_name
from portal.job_pages.selectors import ORDERS, JobFilter
from portal.jobs.models import TAG_LENGTH
from portal.jobs.states import JOB_LIVE, JOB_OVER, JobState
from portal.teams.forms.choices import vc_choices

GROUPS = {"live": JOB_LIVE, "over": JOB_OVER}
EVERYBODYS = [
    (_("All"), ""),
    (_("Mine"), "mine=on"),
    (_("Mine, unfinished"), "mine=on&state=live"),
    (_("Mine that failed"), "mine=on&state=failed"),
]
"""Predefined views: names and filters."""


def _day(label: Any) -> forms.DateField:
    wrong = {"invalid": _("There is no such day; write it as 2026-12-31.")}
    return day_field(label, required=False, error_messages=wrong)


class JobFilterForm(PeriodForm):
    """Filters of the list. Invalid values are ignored and reported beside their fields."""

    text = text_field(_("Name of the job"), 100, required=False, placeholder=_("Name of the job"), type="search")
    user = name_field("users", _("User"), most=100, required=False, placeholder=_("User"), type="search")
    state = forms.MultipleChoiceField(
        label=_("State"),
        required=False,
        choices=[("live", _("Unfinished")), ("over", _("Finished")), *JobState.choices],
        widget=forms.CheckboxSelectMultiple(CHECK),
    )
    priority = forms.MultipleChoiceField(
        label=_("Priority"),
        required=False,
        choices=[(name, _(priority_name(number))) for name, number in PRIORITY_CLASSES.items()],
        widget=forms.CheckboxSelectMultiple(CHECK),
    )
    vc = choice_field(_("Virtual cluster"), (), required=False)
    tag = text_field(_("Tag"), TAG_LENGTH, required=False, placeholder=_("Tag"))
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
    mine = forms.BooleanField(label=_("Only mine"), required=False, widget=forms.CheckboxInput(CHECK))
    before = forms.IntegerField(required=False, min_value=1, max_value=2**62, widget=forms.HiddenInput)

    places = ("before",)

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        self.reader = user
        offer(self.fields["vc"], vc_choices(user=user))

    @property
    def count(self) -> int:
        """The number of filters set, not counting order and page."""
        return len(self.chosen.keys() - {"sort", "before"})

    @property
    def misread(self) -> dict[str, tuple[str, list[str]]]:
        """Invalid input and the errors, by field name."""
        self.is_valid()
        return {name: (_typed(self[name].value()), [str(why) for why in self.errors[name]]) for name in self.errors}

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
            **self.period,
            order=ORDERS[chosen.get("sort", "")],
            before=chosen.get("before"),
        )


def _typed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)

"""What people choose on the job pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import vc_restrict, vcs_for_submit
from portal.jobs.models import Job
from portal.jobs.selectors.pages import JobFilter
from portal.jobs.states import JOB_LIVE, JOB_OVER, JobState

_SELECT = {"class": "form-select"}
GROUPS = {"live": JOB_LIVE, "over": JOB_OVER}


class JobFilterForm(forms.Form):
    """The filters of the job list. What cannot be is left out of account, never an error."""

    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("Any state")),
            ("live", _("Not over yet")),
            ("over", _("Over")),
            (_("One state"), JobState.choices),
        ],
        widget=forms.Select(_SELECT),
    )
    vc = forms.ChoiceField(label=_("Virtual cluster"), required=False, widget=forms.Select(_SELECT))
    mine = forms.BooleanField(
        label=_("Only mine"), required=False, widget=forms.CheckboxInput({"class": "form-check-input"})
    )
    text = forms.CharField(
        label=_("Name or user"),
        required=False,
        max_length=100,
        widget=forms.TextInput({"class": "form-control", "type": "search", "placeholder": _("Name or user")}),
    )
    before = forms.IntegerField(required=False, min_value=1, max_value=2**62, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        self.user = user
        field = self.fields["vc"]
        assert isinstance(field, forms.ChoiceField)
        names = vc_restrict(user=user).values_list("name", flat=True)
        field.choices = [("", _("Any virtual cluster")), *((name, name) for name in names)]

    @property
    def chosen(self) -> dict[str, Any]:
        """The filters that are set and possible, as they stand in the address."""
        self.is_valid()
        return {name: "on" if value is True else value for name, value in self.cleaned_data.items() if value}

    def to_filter(self) -> JobFilter:
        """The choice as the selector takes it."""
        chosen = self.chosen
        state = chosen.get("state", "")
        return JobFilter(
            states=GROUPS.get(state, (state,) if state else ()),
            vc=chosen.get("vc", ""),
            user=self.user if chosen.get("mine") else None,
            text=chosen.get("text", ""),
            before=chosen.get("before"),
        )


class QueueForm(forms.Form):
    """Whose queue to show. What cannot be is left out of account, never an error."""

    vc = forms.ChoiceField(label=_("Virtual cluster"), required=False, widget=forms.Select(_SELECT))
    first = forms.IntegerField(required=False, min_value=0, max_value=10**9, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, user: User) -> None:
        super().__init__(data)
        field = self.fields["vc"]
        assert isinstance(field, forms.ChoiceField)
        names = vc_restrict(user=user).values_list("name", flat=True)
        field.choices = [("", _("Any virtual cluster")), *((name, name) for name in names)]

    @property
    def chosen(self) -> dict[str, Any]:
        """What is set and possible, as it stands in the address."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}


class JobFileForm(forms.Form):
    """A job file as it was typed."""

    config = forms.CharField(label=_("Job file"), strip=False, widget=forms.Textarea)


class MoveForm(forms.Form):
    """Another virtual cluster of those to which the job's owner may submit."""

    vc = forms.ModelChoiceField(
        label=_("Virtual cluster"),
        queryset=VirtualCluster.objects.none(),
        to_field_name="name",
        empty_label=None,
        widget=forms.Select(_SELECT),
    )

    def __init__(self, data: Any, *, job: Job) -> None:
        super().__init__(data)
        field = self.fields["vc"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = vcs_for_submit(job.user).exclude(pk=job.vc_id)
        self.choices_there = field.queryset.exists()

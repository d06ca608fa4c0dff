"""Forms of the job pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SELECT, choice_field, offer, text_field
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vcs_for_submit


class JobFileForm(forms.Form):
    """A job file as typed."""

    config = forms.CharField(label=_("Job file"), strip=False, widget=forms.Textarea)


class MoveForm(forms.Form):
    """Selects another virtual cluster that the job's owner may submit to."""

    vc = forms.ModelChoiceField(
        label=_("Virtual cluster"),
        queryset=VirtualCluster.objects.none(),
        to_field_name="name",
        empty_label=None,
        widget=forms.Select(SELECT),
    )

    def __init__(self, data: Any, *, job: Job) -> None:
        super().__init__(data)
        field = self.fields["vc"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = vcs_for_submit(job.user).exclude(pk=job.vc_id)
        self.choices_there = field.queryset.exists()


class TagForm(forms.Form):
    """Tags to give a job, separated by commas, which no tag contains."""

    tags = text_field(_("New tag"), 1000, _("Several with commas between them."), autocomplete="off")

    @property
    def names(self) -> list[str]:
        """The tags as typed."""
        return [name.strip() for name in self.cleaned_data["tags"].split(",") if name.strip()]


class PriorityForm(forms.Form):
    """Selects another priority class that the reader may give the job."""

    priority = choice_field(
        _("Priority"),
        (),
        _("A job of a higher class stands before the others of its team, and may take GPUs back from lower ones."),
    )

    def __init__(self, data: Any = None, *, classes: Sequence[PriorityClass], initial: int | None = None) -> None:
        now = next((name for name in classes if PRIORITY_CLASSES[name] == initial), None)
        super().__init__(data, initial={"priority": now})
        offer(self.fields["priority"], [(name, gettext(priority_name(PRIORITY_CLASSES[name]))) for name in classes])

    @property
    def chosen(self) -> PriorityClass:
        """The chosen class."""
        return cast(PriorityClass, self.cleaned_data["priority"])

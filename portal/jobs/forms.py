"""What people choose on the job pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.core.validators import MaxValueValidator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.clusters.models import VirtualCluster
from portal.clusters.models.names import NAME
from portal.clusters.selectors.visible import vc_restrict, vcs_for_submit
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.common.versions import version_of
from portal.jobs.models import Job, JobTemplate
from portal.jobs.selectors.templates import template_homes
from portal.jobs.services.order import DEEPEST, Place
from portal.jobs.services.templates import template_told

_SELECT = {"class": "form-select"}


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


class PlaceForm(forms.Form):
    """Another place of a waiting job among ``others``: their labels by id, in the order of the queue."""

    to = forms.ChoiceField(label=_("Where to"), widget=forms.RadioSelect({"class": "form-check-input"}))
    beside = forms.TypedChoiceField(
        label=_("The other job"),
        required=False,
        coerce=int,
        empty_value=None,
        widget=forms.Select(_SELECT),
        help_text=_("For before and behind it."),
    )
    number = forms.IntegerField(
        label=_("Place"), required=False, min_value=1, widget=forms.NumberInput({"class": "form-control"})
    )

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
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = choices
        self.fields["beside"].error_messages["invalid_choice"] = _("This job does not wait here any more.")
        last = min(len(self.others) + 1, DEEPEST)
        number = self.fields["number"]
        number.help_text = _("From 1, which is the front, to %(last)d.") % {"last": last}
        number.validators.append(MaxValueValidator(last))
        number.widget.attrs["max"] = last

    def clean(self) -> None:
        """Asks for what the chosen way needs."""
        to, typed = self.cleaned_data.get("to"), self.cleaned_data
        if to in {"before", "after"} and typed.get("beside") is None and "beside" not in self.errors:
            self.add_error("beside", _("Choose the other job."))
        if to == "number" and typed.get("number") is None and "number" not in self.errors:
            self.add_error("number", _("Type the number of the place."))
        for unused in {"beside", "number"} - {"beside" if to in {"before", "after"} else to}:
            self.errors.pop(unused, None)

    def place(self, seen: Sequence[int]) -> Place:
        """As the service takes it; ``seen``: the order that it was chosen from."""
        to, typed = self.cleaned_data["to"], self.cleaned_data
        before = typed["beside"] if to == "before" else None
        after = typed["beside"] if to == "after" else None
        if to == "number" and typed["number"] > 1:
            after = self.others[typed["number"] - 2]
        return Place(before, after, own=to == "own", seen=tuple(seen))


class TagForm(forms.Form):
    """Tags to give a job, separated by commas, which no tag has."""

    tags = forms.CharField(
        label=_("New tag"),
        max_length=1000,
        help_text=_("Several with commas between them."),
        widget=forms.TextInput({"class": "form-control", "autocomplete": "off"}),
    )

    @property
    def names(self) -> list[str]:
        """The tags, as they were typed."""
        return [name.strip() for name in self.cleaned_data["tags"].split(",") if name.strip()]


class PriorityForm(forms.Form):
    """Another priority class, of those that the reader may give the job."""

    priority = forms.ChoiceField(
        label=_("Priority"),
        widget=forms.Select(_SELECT),
        help_text=_(
            "A job of a higher class stands before the others of its team, and may take GPUs back from lower ones."
        ),
    )

    def __init__(self, data: Any = None, *, classes: Sequence[PriorityClass], initial: int | None = None) -> None:
        now = next((name for name in classes if PRIORITY_CLASSES[name] == initial), None)
        super().__init__(data, initial={"priority": now})
        field = self.fields["priority"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, gettext(priority_name(PRIORITY_CLASSES[name]))) for name in classes]

    @property
    def chosen(self) -> PriorityClass:
        """The class."""
        return cast(PriorityClass, self.cleaned_data["priority"])


class TemplateFilterForm(forms.Form):
    """Which templates to show."""

    text = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=100,
        widget=forms.TextInput({"class": "form-control", "type": "search", "placeholder": _("Find a template")}),
    )

    @property
    def wanted(self) -> str:
        """A part of the name, empty for all."""
        self.is_valid()
        return str(self.cleaned_data.get("text", ""))


class _TemplateForm(forms.Form):
    """A job file under a name."""

    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        validators=[NAME],
        widget=forms.TextInput({"class": "form-control", "autocomplete": "off"}),
    )
    description = forms.CharField(
        label=_("What it is for"),
        max_length=1000,
        required=False,
        widget=forms.TextInput({"class": "form-control", "autocomplete": "off"}),
    )
    config = forms.CharField(label=_("Job file"), strip=False, widget=forms.Textarea)

    @property
    def values(self) -> dict[str, str]:
        """As the services take them. A form's text comes with Windows line ends."""
        typed = self.cleaned_data
        file = typed["config"].replace("\r\n", "\n")
        return {"name": typed["name"], "description": typed["description"], "file": file}


class TemplateForm(_TemplateForm):
    """A new template."""

    home = forms.ChoiceField(label=_("Who may use it"), widget=forms.Select(_SELECT))
    field_order = ("name", "home", "description", "config")

    def __init__(self, data: Any = None, *, user: User, **more: Any) -> None:
        super().__init__(data, **more)
        homes = template_homes(user=user)
        choices = [("private", _("Only me")), *((f"vc:{vc}", _("Members of %s") % vc) for vc in homes.vcs)]
        field = self.fields["home"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [*choices, ("public", _("Everybody"))] if homes.public else choices

    @property
    def vc(self) -> str | None:
        """The virtual cluster that it is for."""
        kind, _colon, name = self.cleaned_data["home"].partition(":")
        return name if kind == "vc" else None

    @property
    def public(self) -> bool:
        """Whether it is for everybody."""
        return bool(self.cleaned_data["home"] == "public")


class TemplateChangeForm(_TemplateForm):
    """Another name, description or file. ``seen``: the version that the change was made from."""

    seen = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, data: Any = None, *, template: JobTemplate) -> None:
        now = {"name": template.name, "description": template.description, "config": template.file}
        super().__init__(data, initial={**now, "seen": version_of(template_told(template))})

    def renew(self, template: JobTemplate) -> None:
        """What is typed stays, to replace what is there now."""
        self.data = {**{name: self.data[name] for name in self.data}, "seen": version_of(template_told(template))}

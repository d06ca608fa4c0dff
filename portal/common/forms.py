"""Form fields and helpers shared by all pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from django import forms
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from portal.common.errors import Denied, Invalid, Refused
from portal.common.sentences import sentence

TEXT = {"class": "form-control"}
SELECT = {"class": "form-select"}
CHECK = {"class": "form-check-input"}


def refusal_show(
    form: forms.BaseForm, refusal: Refused, *, at: str | None = None, say: Callable[[str], str] = sentence
) -> None:
    """Adds each fault to the field that it names; those that name none go to ``at``, else above the form. ``say``:
    ``str`` for faults that may begin with a name."""
    if not isinstance(refusal, Invalid):
        form.add_error(at, refusal.detail)
        return
    for fault in refusal.faults:
        name = re.split(r"[.\[]", fault.path)[0]
        form.add_error(name if name in form.fields else at, say(fault.message))


@contextmanager
def refusals_shown(
    form: forms.BaseForm, *, at: str | None = None, say: Callable[[str], str] = sentence
) -> Iterator[None]:
    """Shows on the form, as ``refusal_show`` does, what refuses to be done inside."""
    try:
        yield
    except Denied:
        raise  # no other values would help
    except Refused as refusal:
        refusal_show(form, refusal, at=at, say=say)


def text_field(
    label: Any,
    most: int,
    help_text: Any = "",
    *,
    required: bool = True,
    validators: Sequence[Any] = (),
    **attributes: Any,
) -> forms.CharField:
    """A line of text. ``attributes``: of its field in HTML."""
    return forms.CharField(
        label=label, max_length=most, help_text=help_text, required=required, validators=validators,
        widget=forms.TextInput({**TEXT, **attributes}),
    )  # fmt: skip


def reason_field(help_text: Any = "", **more: Any) -> forms.CharField:
    """Why something is done."""
    return text_field(_("Reason"), 500, help_text, autocomplete="off", **more)


def password_field(
    label: Any, *, most: int | None = None, required: bool = True, help_text: Any = "", **attributes: Any
) -> forms.CharField:
    """A text that is not shown, as it was typed."""
    return forms.CharField(
        label=label, strip=False, max_length=most, required=required, help_text=help_text,
        widget=forms.PasswordInput({**TEXT, **attributes}),
    )  # fmt: skip


def choice_field(label: Any, choices: Any, help_text: Any = "", **more: Any) -> forms.ChoiceField:
    """One of several."""
    return forms.ChoiceField(label=label, choices=choices, help_text=help_text, widget=forms.Select(SELECT), **more)


def number_field(label: Any, help_text: Any = "", **more: Any) -> forms.IntegerField:
    """A whole number."""
    return forms.IntegerField(label=label, help_text=help_text, widget=forms.NumberInput(TEXT), **more)


def day_field(label: Any, **more: Any) -> forms.DateField:
    """A day, as browsers let it be chosen."""
    return forms.DateField(label=label, widget=forms.DateInput({**TEXT, "type": "date"}, "%Y-%m-%d"), **more)


def checkbox(label: Any, help_text: Any = "", **more: Any) -> forms.BooleanField:
    """A yes-or-no field."""
    return forms.BooleanField(
        label=label, help_text=help_text, required=False, widget=forms.CheckboxInput(CHECK), **more
    )


class NameInput(forms.TextInput):
    """Text input that suggests names of a kind that the user may see; without script it is a plain input. ``several``:
    it takes a list of names."""

    def __init__(self, kind: str, attrs: Mapping[str, Any] = TEXT, *, several: bool = False) -> None:
        super().__init__(dict(attrs))
        self.kind, self.several = kind, several

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        offered = f"{(attrs or {}).get('id') or name}_names"
        asking = {
            "list": offered,
            "data-hx-get": reverse("names", args=[self.kind]) + ("?several=" if self.several else ""),
            "data-hx-trigger": "focus once, input changed delay:200ms",
            "data-hx-target": f"#{offered}",
            "data-hx-swap": "innerHTML",
        }
        field = super().render(name, value, {**(attrs or {}), **asking}, renderer)
        return format_html('{}<datalist id="{}"></datalist>', field, offered)


def name_field(
    kind: str, label: Any, help_text: Any = "", *, most: int = 64, required: bool = True, **attributes: Any
) -> forms.CharField:
    """A name of that kind, with suggestions."""
    return forms.CharField(
        label=label, max_length=most, help_text=help_text, required=required,
        widget=NameInput(kind, {**TEXT, **attributes}),
    )  # fmt: skip


class Words(forms.CharField):
    """A field for several words, separated by commas, semicolons or blanks; duplicates dropped, order kept. ``names``:
    their kind, if they are names."""

    def __init__(self, *, names: str = "", **more: Any) -> None:
        widget = NameInput(names, several=True) if names else forms.TextInput(TEXT)
        super().__init__(required=False, max_length=10_000, widget=widget, **more)

    def to_python(self, value: Any) -> Any:
        text = value if isinstance(value, str) else ""
        return list(dict.fromkeys(word for word in re.split(r"[,;\s]+", text) if word))

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def validate(self, value: Any) -> None:
        pass

    def run_validators(self, value: Any) -> None:
        pass


class SeenForm(forms.Form):
    """A form with optimistic locking, for what two people may change at once. It carries the version that it showed
    (``seen``) and each field's value then."""

    seen = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, present: Mapping[str, Any], seen: str) -> None:
        super().__init__(data, initial={**present, "seen": seen})
        self.present, self.current = present, seen
        self.meanwhile: dict[str, Any] = {}
        self.overtaken = False
        self.last: Any = None
        for name, field in self.fields.items():
            field.show_hidden_initial = name in present

    apart: tuple[str, ...] = ()
    """Fields that the service takes in another way."""

    @property
    def changes(self) -> dict[str, Any]:
        """What is typed, for the service."""
        return {name: value for name, value in self.cleaned_data.items() if name not in {"seen", *self.apart}}

    def take_present(self, last: Any) -> None:
        """Merges somebody else's change into the form: untouched fields take the present value, typed ones stay, and
        ``meanwhile`` maps each field that the other changed to its present value. Sets ``overtaken``. ``last``: the
        audit log's entry of that change, if any."""
        self.last = last
        fresh = QueryDict(mutable=True)
        fresh.update(self.data)
        touched = set(self.changed_data)
        for name, value in self.present.items():
            shown = self.fields[name].prepare_value(value)
            hidden = "" if shown is None else str(shown)
            was = self.data.get(self.add_initial_prefix(name))
            changed = was is None or was.replace("\r\n", "\n") != hidden
            if changed and (name not in touched or self.cleaned_data.get(name) != value):
                self.meanwhile[name] = shown
            fresh[self.add_initial_prefix(name)] = hidden
            if name not in touched:
                _put(fresh, name, shown)
        fresh["seen"] = self.current
        self.data, self.overtaken = fresh, True

    def told_meanwhile(self) -> list[tuple[forms.BoundField, Any]]:
        """The fields that the other changed, each with its present value as the form words it."""
        return [(self[name], self._worded(name, shown)) for name, shown in self.meanwhile.items()]

    def _worded(self, name: str, shown: Any) -> Any:
        field = self.fields[name]
        if isinstance(field, forms.ChoiceField):
            return dict(cast("Iterable[tuple[str, Any]]", field.choices)).get(shown, shown)
        if isinstance(shown, bool):
            return gettext("Yes") if shown else gettext("No")
        return None if shown == "" else shown


def offer(field: forms.Field, choices: Iterable[tuple[Any, Any]]) -> None:
    """Sets what can be chosen in a field, where that depends on the reader."""
    assert isinstance(field, forms.ChoiceField)
    field.choices = list(choices)


def _put(data: Any, name: str, shown: Any) -> None:
    if shown is False:
        data.pop(name, None)
    elif isinstance(shown, list):
        data.setlist(name, shown)
    else:
        data[name] = "on" if shown is True else "" if shown is None else str(shown)

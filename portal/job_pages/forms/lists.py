"""Forms of the job list: naming a view, and bulk actions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from portal.common.forms import text_field
from portal.jobs.models import TAG_LENGTH, VIEW_NAME_LENGTH
from portal.jobs.services.bulk import AT_ONCE
from portal.jobs.services.tags import tag_fault


class ViewForm(forms.Form):
    """A name for the current filters."""

    name = text_field(_("Its name"), VIEW_NAME_LENGTH, autocomplete="off", id="view-name")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        words = _("Give the view a name of 1 to %(most)d letters.") % {"most": VIEW_NAME_LENGTH}
        self.fields["name"].error_messages |= {"required": words, "max_length": words}


class BulkForm(forms.Form):
    """A bulk action. ``do``: the button pressed; ``ids``: the jobs chosen, permitted or not."""

    do = forms.ChoiceField(choices=[(name, name) for name in ("stop", "tag", "untag")])
    tag = forms.CharField(
        label=_("Tag"),
        required=False,
        widget=forms.TextInput(
            {
                "id": "bulk-tag",
                "class": "form-control",
                "maxlength": TAG_LENGTH,
                "placeholder": _("Tag"),
                "autocomplete": "off",
            }
        ),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        sent = data.getlist("job") if data is not None else []
        self.ids = [int(one) for one in sent if one.isascii() and one.isdigit() and len(one) < 19]
        self.fields["do"].error_messages |= dict.fromkeys(("required", "invalid_choice"), _("Choose what to do."))

    def clean(self) -> None:
        """Requires a tag to add or remove; any existing tag can be removed."""
        if not self.ids:
            self.add_error(None, gettext("Choose one or more jobs first."))
        elif len(self.ids) > AT_ONCE:
            self.add_error(None, gettext("At most %(most)d jobs at once.") % {"most": AT_ONCE})
        do, tag = self.cleaned_data.get("do"), self.cleaned_data.get("tag", "")
        if "tag" not in self.errors and (do == "tag" or (do == "untag" and not tag)) and (fault := tag_fault(tag)):
            self.add_error("tag", fault)

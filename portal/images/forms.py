"""What administrators type about images."""

from __future__ import annotations

from django import forms
from django.core.validators import RegexValidator
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SELECT, TEXT, NameInput
from portal.images.models import PATTERN_LENGTH

PATTERN = RegexValidator(
    r"^[A-Za-z0-9._:/@*?\[\]!+-]+\Z", _("Part of an image's name, with * for any text and ? for a character.")
)


class ImageForm(forms.Form):
    """A pattern of images that may run."""

    pattern = forms.CharField(
        label=_("Images"), max_length=PATTERN_LENGTH, validators=[PATTERN],
        widget=forms.TextInput({**TEXT, "placeholder": "nvcr.io/nvidia/*"}),
        help_text=_("An image's name, * for any text; without a tag all tags are meant."),
    )  # fmt: skip
    vc = forms.CharField(
        label=_("Virtual cluster"), max_length=64, required=False, widget=NameInput("virtual-clusters"),
        help_text=_("Empty: all that have no patterns of their own."),
    )  # fmt: skip
    profile = forms.ChoiceField(
        label=_("Containers run as"),
        help_text=_("Root is given where the virtual cluster and a pattern that means the image both allow it."),
        choices=[("root", capfirst(_("as the virtual cluster says"))), ("user", capfirst(_("the user, always")))],
        required=False, widget=forms.Select(SELECT),
    )  # fmt: skip
    note = forms.CharField(label=_("Note"), max_length=500, required=False, widget=forms.TextInput(TEXT))

    def clean_profile(self) -> str:
        """Who leaves it out narrows nothing."""
        return self.cleaned_data["profile"] or "root"

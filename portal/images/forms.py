"""What administrators type about images."""

from __future__ import annotations

from django import forms
from django.core.validators import RegexValidator
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from portal.common.forms import choice_field, name_field, text_field
from portal.images.models import PATTERN_LENGTH

PATTERN = RegexValidator(
    r"^[A-Za-z0-9._:/@*?\[\]!+-]+\Z", _("Part of an image's name, with * for any text and ? for a character.")
)


class ImageForm(forms.Form):
    """A pattern of images that may run."""

    pattern = text_field(
        _("Images"),
        PATTERN_LENGTH,
        _("An image's name, * for any text; without a tag all tags are meant."),
        validators=[PATTERN],
        placeholder="nvcr.io/nvidia/*",
    )
    vc = name_field(
        "virtual-clusters", _("Virtual cluster"), _("Empty: all that have no patterns of their own."), required=False
    )
    profile = choice_field(
        _("Containers run as"),
        [("root", capfirst(_("as the virtual cluster says"))), ("user", capfirst(_("the user, always")))],
        _("Root is given where the virtual cluster and a pattern that means the image both allow it."),
        required=False,
    )
    note = text_field(_("Note"), 500, required=False)

    def clean_profile(self) -> str:
        """Who leaves it out narrows nothing."""
        return self.cleaned_data["profile"] or "root"

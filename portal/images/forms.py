"""What administrators type about images."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from portal.common.columns import RowForm, column_of, form_field
from portal.common.forms import name_field
from portal.images.models import ImageRule


class ImageForm(RowForm):
    """A pattern of images that may run."""

    vc = name_field(
        "virtual-clusters", _("Virtual cluster"), _("Empty: all that have no patterns of their own."), required=False
    )
    profile = form_field(column_of(ImageRule, "profile"), required=False)
    field_order = ("pattern", "vc", "profile")

    class Meta(RowForm.Meta):
        model = ImageRule
        fields = ("pattern", "note")

    def clean_profile(self) -> str:
        """Who leaves it out narrows nothing."""
        return self.cleaned_data["profile"] or "root"

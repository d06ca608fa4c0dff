"""Forms for administering storages."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from portal.common.columns import RowForm
from portal.common.forms import SeenForm, Words
from portal.storages.models import COLUMNS, Storage


class _About(RowForm):
    """Fields of every storage."""

    virtual_clusters = Words(
        label=_("Virtual clusters whose jobs may use it"), names="virtual-clusters", help_text=_("Separated by commas.")
    )
    field_order: tuple[str, ...] = ("kind", "root", "export", "options", "virtual_clusters", "everyone")

    class Meta(RowForm.Meta):
        model = Storage
        fields = COLUMNS


class NewStorageForm(_About):
    """A new storage."""

    servers = Words(
        label=_("Servers that answer for it"), names="nodes",
        help_text=_(
            "Separated by commas. Empty: of NFS all accepted ones, else those of which its folder was accepted."
        ),
    )  # fmt: skip
    field_order = ("name", *_About.field_order)

    class Meta(_About.Meta):
        fields = ("name", *COLUMNS)

    @property
    def about(self) -> dict[str, Any]:
        """Arguments for the service; what is not valid is as if it were empty."""
        return {"name": "", "root": "", "virtual_clusters": [], "servers": [], **self.cleaned_data}


class StorageForm(SeenForm, _About):
    """Changes to a storage."""

    apart = ("virtual_clusters",)

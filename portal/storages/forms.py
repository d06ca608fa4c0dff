"""Forms for administering storages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SeenForm, Words, checkbox, choice_field, text_field
from portal.common.names import NAME


class _About(forms.Form):
    """Fields of every storage."""

    kind = choice_field(
        _("Kind"),
        [("path", _("Folder on each server")), ("nfs", _("NFS"))],
        _("The agents mount NFS; a folder is there already."),
    )
    root = text_field(
        _("Folder"), 500, _("Absolute, and the same on every server that offers it."), placeholder="/mnt/data"
    )
    export = text_field(_("NFS export"), 500, _("Of NFS only."), required=False, placeholder="filer:/data")
    options = text_field(_("Mount options"), 300, _("Of NFS only."), required=False, placeholder="vers=4.2,nconnect=4")
    virtual_clusters = Words(
        label=_("Virtual clusters whose jobs may use it"), names="virtual-clusters",
        help_text=_("Separated by commas."),
    )  # fmt: skip
    everyone = checkbox(_("Every job may use it"))
    read_only = checkbox(_("Read only"))
    per_user = checkbox(
        _("Each user has a folder of their own"),
        _(
            "and sees nothing else of it. Where jobs write, always so while a virtual cluster that may use it allows "
            "root."
        ),
    )
    must_be_mount = checkbox(
        _("Only where something is mounted there"),
        _("A server with nothing mounted at the folder does not offer it."),
        initial=True,
    )
    jobs = checkbox(_("Job folders lie here"), _("Of one storage in the whole cluster."))


class NewStorageForm(_About):
    """A new storage."""

    name = text_field(_("Name"), 64, _("Job files call it so."), validators=[NAME])
    servers = Words(
        label=_("Servers that answer for it"), names="nodes",
        help_text=_(
            "Separated by commas. Empty: of NFS all accepted ones, else those of which its folder was accepted."
        ),
    )  # fmt: skip
    field_order = ("name",)

    @property
    def about(self) -> dict[str, Any]:
        """Arguments for the service; what is not valid is as if it were empty."""
        return {"name": "", "root": "", "virtual_clusters": [], "servers": [], **self.cleaned_data}


class StorageForm(SeenForm, _About):
    """Changes to a storage."""

    apart = ("virtual_clusters",)

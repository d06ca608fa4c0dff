"""Forms for administering storages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from portal.common.forms import SELECT, TEXT, SeenForm, Words, checkbox
from portal.common.names import NAME


class _About(forms.Form):
    """Fields of every storage."""

    kind = forms.ChoiceField(
        label=_("Kind"), widget=forms.Select(SELECT), choices=[("path", _("Folder on each server")), ("nfs", _("NFS"))],
        help_text=_("The agents mount NFS; a folder is there already."),
    )  # fmt: skip
    root = forms.CharField(
        label=_("Folder"), max_length=500, widget=forms.TextInput({**TEXT, "placeholder": "/mnt/data"}),
        help_text=_("Absolute, and the same on every server that offers it."),
    )  # fmt: skip
    export = forms.CharField(
        label=_("NFS export"), max_length=500, required=False,
        widget=forms.TextInput({**TEXT, "placeholder": "filer:/data"}), help_text=_("Of NFS only."),
    )  # fmt: skip
    options = forms.CharField(
        label=_("Mount options"), max_length=300, required=False,
        widget=forms.TextInput({**TEXT, "placeholder": "vers=4.2,nconnect=4"}), help_text=_("Of NFS only."),
    )  # fmt: skip
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

    name = forms.CharField(
        label=_("Name"), max_length=64, validators=[NAME], widget=forms.TextInput(TEXT),
        help_text=_("Job files call it so."),
    )  # fmt: skip
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

    @property
    def changes(self) -> dict[str, Any]:
        """Arguments for the service, without virtual clusters."""
        return {name: value for name, value in self.cleaned_data.items() if name not in {"seen", "virtual_clusters"}}

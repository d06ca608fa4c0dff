"""What administrators type about servers, storages, images and hardware kinds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from portal.clusters.models.images import PATTERN_LENGTH
from portal.clusters.models.names import NAME
from portal.common.forms import SELECT, TEXT, NameInput, SeenForm, Words, checkbox

PATTERN = RegexValidator(
    r"^[A-Za-z0-9._:/@*?\[\]!+-]+\Z", _("Part of an image's name, with * for any text and ? for a character.")
)


class _About(forms.Form):
    """What can be said of every storage."""

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
        """As the service takes it; where what was typed cannot be, as if nothing had been."""
        return {"name": "", "root": "", "virtual_clusters": [], "servers": [], **self.cleaned_data}


class StorageForm(SeenForm, _About):
    """What shall be different of a storage."""

    @property
    def changes(self) -> dict[str, Any]:
        """As the service takes them; virtual clusters are by themselves."""
        return {name: value for name, value in self.cleaned_data.items() if name not in {"seen", "virtual_clusters"}}


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


def _cpu_tasks_at_once() -> forms.BooleanField:
    return checkbox(
        _("Tasks without GPUs may run there"),
        _("Of every virtual cluster, with their secrets. Goes with “Accept at once”; else it is asked on acceptance."),
    )


class JoiningForm(forms.Form):
    """A server that shall join."""

    name = forms.CharField(
        label=_("Name"), max_length=63, widget=forms.TextInput({**TEXT, "placeholder": "gpu01", "autocomplete": "off"}),
        help_text=_("Small letters, digits, dots and dashes; mostly its host name."),
    )  # fmt: skip
    public_key = forms.CharField(
        label=_("Its own public key"), max_length=64, required=False,
        widget=forms.TextInput({"class": "form-control mono", "autocomplete": "off"}),
        help_text=_("Of a server on which “python -m nodes key” was run. Empty: a key is made here, and shown once."),
    )  # fmt: skip
    accept = checkbox(
        _("Accept at once"), _("Unseen, with all that its first report says: whoever has its key gets jobs.")
    )
    cpu_tasks = _cpu_tasks_at_once()


class JoinTokenForm(forms.Form):
    """A token by which servers join. The rules are the service's."""

    uses = forms.IntegerField(
        label=_("Servers"), initial=1, widget=forms.NumberInput(TEXT), help_text=_("So many may join by it.")
    )
    hours = forms.IntegerField(
        label=_("Hours"), initial=24, widget=forms.NumberInput(TEXT), help_text=_("So long it can be used.")
    )
    labels = forms.CharField(
        label=_("Labels"), max_length=100, required=False, widget=forms.TextInput({**TEXT, "placeholder": "rack=3"}),
        help_text=_("What is the same for all of them, such as rack=3. May be empty."),
    )  # fmt: skip
    accept = checkbox(
        _("Accept at once"),
        _(
            "Unseen, with all that their first reports say: whoever gets hold of the token gets jobs and their "
            "secrets. Else each server waits until an administrator accepts it on its page."
        ),
    )
    cpu_tasks = _cpu_tasks_at_once()


class PriceForm(forms.Form):
    """What a GPU hour costs."""

    price = forms.DecimalField(
        label=_("Price of a GPU hour"), required=False, min_value=0, max_digits=10, decimal_places=4,
        widget=forms.NumberInput({**TEXT, "step": "any"}),
    )  # fmt: skip


class ShareForm(forms.Form):
    """What CPU and memory go with one GPU."""

    cores = forms.DecimalField(
        label=_("CPU cores"), min_value=Decimal("0.001"), max_value=100_000, decimal_places=3,
        widget=forms.NumberInput({**TEXT, "step": "any"}),
    )  # fmt: skip
    memory = forms.IntegerField(label=_("Memory, MB"), min_value=1, max_value=2**31 - 1, widget=forms.NumberInput(TEXT))

"""The form of the cluster's configuration."""

from __future__ import annotations

from typing import Any

import yaml
from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from portal.common.forms import TEXT
from portal.common.plain_yaml import PlainLoader


class ConfigurationForm(forms.Form):
    """A HiveD-style configuration: as a file or text."""

    seen = forms.IntegerField(required=False, min_value=0, max_value=2**62, widget=forms.HiddenInput)
    file = forms.FileField(
        label=_("A file"), required=False, widget=forms.FileInput({**TEXT, "accept": ".yaml,.yml,.json"}),
        help_text=_("YAML or JSON; it takes the place of the text."),
    )  # fmt: skip
    document = forms.CharField(
        label=_("Configuration"), required=False, strip=False, max_length=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        widget=forms.Textarea({**TEXT, "class": "form-control mono", "rows": 24, "spellcheck": "false",
                               "wrap": "off"}),
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        """The text, and as ``parsed`` its content."""
        typed = self.cleaned_data
        file = typed.get("file")
        try:
            if file is not None and file.size > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                raise forms.ValidationError({"file": _("This file is too large for a configuration.")})
            text = file.read().decode("utf-8-sig") if file is not None else typed.get("document") or ""
            typed["document"] = text
            typed["parsed"] = yaml.load(text, Loader=PlainLoader)  # noqa: S506  # a safe loader, and less
        except UnicodeDecodeError:
            raise forms.ValidationError({"file": _("This is not UTF-8 text.")}) from None
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            message = _("This is no YAML: %(why)s") % {"why": str(error) or _("nested too deeply")}
            raise forms.ValidationError({"document": message}) from None
        if not isinstance(typed["parsed"], dict):
            raise forms.ValidationError({"document": _("A configuration has physicalCluster and virtualClusters.")})
        return typed

"""The page of the cluster's configuration: shows, previews and changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view
from portal.cluster.forms.configuration import ConfigurationForm
from portal.cluster.services.configuration import configuration_export, configuration_read
from portal.common.errors import ChangedMeanwhile, Conflict, Invalid
from portal.hardware.selectors.changed import quotas_changed_last
from portal.scheduler.changes import configuration_change
from portal.scheduler.views.quota import Look
from portal.teams.selectors.visible import configuration_right
from portal.teams.services.cluster_version import cluster_version


@form_view
def configuration(request: PageRequest) -> HttpResponse:
    """A first submit previews another configuration, a second applies it."""
    configuration_right(user=request.user)
    if "download" in request.GET:
        return _download()
    if request.method != "POST":
        return _page(request, ConfigurationForm(initial={"document": _text(), "seen": cluster_version()}))
    form = ConfigurationForm(request.POST, request.FILES)
    look, last, overtaken = None, None, False
    if form.is_valid():
        # A file becomes the text, so that the second submit applies what was previewed.
        form.data = {**request.POST.dict(), "document": form.cleaned_data["document"]}
        try:
            look = _look(request, form)
        except ChangedMeanwhile:
            last, overtaken = quotas_changed_last(), True
            form.data = {**form.data, "seen": cluster_version()}
        except (Invalid, Conflict) as refusal:
            _refuse(form, refusal)
        else:
            if "apply" in request.POST:
                messages.success(
                    request, _("The cluster is as this configuration says. %(said)s") % {"said": look.said}
                )
                return redirect("configuration")
    status = 409 if overtaken else 400 if form.errors else 200
    return _page(request, form, look=look, overtaken=overtaken, last=last, status=status)


def _page(request: PageRequest, form: ConfigurationForm, status: int = 200, **more: Any) -> HttpResponse:
    return render(request, "scheduler/configuration.html", {"form": form, **more}, status=status)


def _text() -> str:
    return yaml.safe_dump(configuration_export(), sort_keys=False, allow_unicode=True)


def _download() -> HttpResponse:
    answer = HttpResponse(_text(), content_type="application/yaml; charset=utf-8")
    answer.headers["Content-Disposition"] = 'attachment; filename="cluster.yaml"'
    return answer


def _look(request: PageRequest, form: ConfigurationForm) -> Look:
    document = form.cleaned_data["parsed"]
    assert isinstance(document, Mapping)
    return Look(
        configuration_change(
            found=configuration_read(document),
            dry_run="apply" not in request.POST,
            version=form.cleaned_data["seen"],
            **by(request),
        )
    )


def _refuse(form: ConfigurationForm, refusal: Invalid | Conflict) -> None:
    if isinstance(refusal, Conflict):
        form.add_error("document", refusal.detail)
        return
    for fault in refusal.faults:
        form.add_error("document", f"{fault.path}: {fault.message}" if fault.path else fault.message)

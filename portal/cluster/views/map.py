"""The cluster page: what is held, free and sick, and by whom."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from itertools import groupby
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.gzip import gzip_page

from portal.accounts.pages import PageRequest, page_view
from portal.accounts.rights import Action, allowed_everywhere
from portal.cluster.selectors.overview import Place, overview
from portal.cluster.services.history import STEP
from portal.cluster.views.dots import dots_written
from portal.common.charts import Chart, Line
from portal.hardware.selectors.history import gpu_counts_summed
from portal.teams.models import VirtualCluster
from portal.teams.selectors.details import cell_types
from portal.teams.selectors.shares import SkuShare, vc_shares
from portal.teams.selectors.visible import job_sight, vc_restrict

MOST_TROUBLES = 12
"""How many troubled nodes the page names above the map."""


@page_view
def cluster(request: PageRequest) -> HttpResponse:
    """Shows sums by SKU, troubles, and the map's frame; the map itself is ``cluster_dots``."""
    if request.htmx and request.GET.get("part") == "teams":
        return render(request, "cluster/parts/teams.html", {"vcs": _vcs(request)})
    found = overview(user=request.user)
    if request.htmx and request.GET.get("part") == "over-time":
        return render(request, "cluster/parts/over_time.html", _over_time(request, found.sums))
    troubled = found.troubled
    context: dict[str, Any] = {
        "sums": [(sku, sum(places.values()), places) for sku, places in found.sums.items()],
        "nodes": len(found.nodes),
        "racks": [(name, "x" * len(list(there))) for name, there in groupby(found.nodes, key=lambda one: one.section)],
        "racked": any(one.section for one in found.nodes),
        "troubles": troubled[:MOST_TROUBLES],
        "more_troubles": max(0, len(troubled) - MOST_TROUBLES),
        "may_add": allowed_everywhere(request.user, Action.NODE_ADD),
    }
    if request.htmx:
        return render(request, "cluster/parts/cluster.html", context)
    more = {"vcs": _vcs(request), "kinds": cell_types(), **_over_time(request, found.sums)}
    return render(request, "cluster/cluster.html", {**context, **more})


SPANS = {"1": _("a day"), "7": _("a week"), "30": _("30 days")}


def _over_time(request: PageRequest, present: Mapping[str, Mapping[Place, int]]) -> dict[str, Any]:
    """The GPU chart, over the days in the query."""
    days = request.GET.get("days", "")
    days = days if days in SPANS else next(iter(SPANS))
    return {"chart": _chart(request, int(days), present), "days": days, "spans": SPANS}


def _chart(request: PageRequest, days: int, present: Mapping[str, Mapping[Place, int]]) -> Chart:
    """A chart up to now: counts are recorded every five minutes and thinned out over long spans, so the ``present``
    counts (by SKU) are appended."""
    now = timezone.now()
    found = gpu_counts_summed(user=request.user, since=now - timedelta(days=days))
    if found:
        if now - found[-1][0] < STEP:
            found.pop()  # same step: replaced by the present
        found.append((now, {str(place): sum(one[place] for one in present.values()) for place in Place}))
    names = {
        "held": (gettext("in quota"), "running"), "lent": (gettext("on loan"), "waiting"),
        "free": (gettext("free"), "succeeded"), "out": (gettext("closed"), "stopped"),
        "sick": (gettext("sick"), "failed"),
    }  # fmt: skip
    lines = [Line(name, [counts[place] for _at, counts in found], colour) for place, (name, colour) in names.items()]
    times = [int(at.timestamp()) for at, _counts in found]
    end = int(now.timestamp())
    return Chart(
        "gpus", gettext("GPUs over time"), "", lines, times, kind="area", stacked=True, span=(end - days * 86_400, end)
    )


def _vcs(request: PageRequest) -> list[tuple[VirtualCluster, list[SkuShare]]]:
    vcs = list(vc_restrict(user=request.user))
    shares = vc_shares(vcs=vcs)
    return [(vc, shares[vc.pk]) for vc in vcs]


@gzip_page
@page_view
def cluster_dots(request: PageRequest) -> HttpResponseBase:
    """The map as JSON: each GPU with its state, holder and utilisation. 304 if nothing has changed."""
    vcs = vc_restrict(user=request.user).order_by("pk").values_list("name", flat=True)
    body = dots_written(overview(user=request.user), vcs=vcs, sight=job_sight(user=request.user))
    etag = quote_etag(hashlib.md5(body, usedforsecurity=False).hexdigest())
    answer = HttpResponse(body, content_type="application/json", headers={"ETag": etag})
    return get_conditional_response(request, etag=etag, response=answer) or answer

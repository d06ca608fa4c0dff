"""The page of SKUs."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, form_view
from portal.accounts.rights import Action, allowed_everywhere
from portal.cluster.forms.skus import PriceForm, ShareForm
from portal.hardware.models import Sku
from portal.hardware.services.prices import sku_set_price, sku_set_share
from portal.teams.selectors.shares import SkuTotal, sku_totals
from portal.teams.selectors.visible import cluster_right


@form_view
def skus(request: PageRequest) -> HttpResponse:
    """Lists SKUs with their shares and prices, which an administrator sets here."""
    typed: PriceForm | ShareForm | None = None
    name = request.POST.get("sku", "")
    if request.method == "POST":
        cluster_right(user=request.user)
        typed = ShareForm(request.POST) if "cores" in request.POST else PriceForm(request.POST)
        if typed.is_valid():
            messages.success(request, _sku_set(name, typed, request.user.username))
            return redirect("skus")
    kinds = {sku.name: sku for sku in Sku.objects.all()}
    context = {
        "rows": [
            (total, kinds[total.sku], *_sku_forms(total, typed if name == total.sku else None))
            for total in sku_totals()
        ],
        "currency": settings.CURRENCY,
        "may_set": allowed_everywhere(request.user, Action.CLUSTER_CONFIGURE),
    }
    return render(request, "cluster/skus.html", context, status=400 if typed else 200)


def _sku_set(name: str, form: PriceForm | ShareForm, actor: str) -> str:
    typed, now = form.cleaned_data, timezone.now()
    if isinstance(form, ShareForm):
        cpu_milli = int(typed["cores"] * 1000)
        sku_set_share(name=name, cpu_milli=cpu_milli, memory_mb=typed["memory"], now=now, actor=actor)
        return _("What goes with %(sku)s is set.") % {"sku": name}
    sku_set_price(name=name, price=typed["price"], now=now, actor=actor)
    return _("The price of %(sku)s is set.") % {"sku": name}


def _sku_forms(total: SkuTotal, typed: PriceForm | ShareForm | None) -> tuple[ShareForm, PriceForm]:
    """The current values as forms, the submitted one as typed."""
    share = ShareForm(initial={"cores": f"{total.share_cpu_milli / 1000:g}", "memory": total.share_memory_mb})
    price = PriceForm(initial={"price": total.price})
    return typed if isinstance(typed, ShareForm) else share, typed if isinstance(typed, PriceForm) else price

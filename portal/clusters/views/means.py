"""Pages of the images that may run and of the hardware kinds."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action, allowed_everywhere
from portal.clusters.forms.means import ImageForm, PriceForm, ShareForm
from portal.clusters.models import Sku
from portal.clusters.selectors.images import image_right, image_rule_to_remove, image_rules
from portal.clusters.selectors.shares import SkuTotal, sku_totals
from portal.clusters.selectors.visible import cluster_right
from portal.clusters.services.images import image_rule_add, image_rule_remove
from portal.clusters.services.people import vcs_named
from portal.clusters.services.prices import sku_set_price, sku_set_share
from portal.common.errors import Refused
from portal.common.forms import refusal_show


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def images(request: PageRequest) -> HttpResponse:
    """The patterns of the cluster and of one's virtual clusters; an administrator adds to them here."""
    form = ImageForm(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        image_right(user=request.user)
        if _allowed(form, request.user.username):
            messages.success(request, _("%(pattern)s may run now.") % {"pattern": form.cleaned_data["pattern"]})
            return redirect("images")
    rules = image_rules(user=request.user).select_related("vc").order_by("vc__name", "pattern")
    context = {"form": form, "rules": rules, "may_set": allowed_everywhere(request.user, Action.IMAGES_SET)}
    return render(request, "clusters/images.html", context, status=400 if form.errors else 200)


def _allowed(form: ImageForm, actor: str) -> bool:
    """False with everything that is wrong beside its field."""
    form.is_valid()
    typed, vc = form.cleaned_data, None
    try:
        if typed.get("vc"):
            vc = vcs_named([typed["vc"]], path="vc")[0]
        if not form.errors:
            image_rule_add(
                vc=vc, pattern=typed["pattern"], profile=typed["profile"], note=typed["note"], now=timezone.now(),
                actor=actor,
            )  # fmt: skip
    except Refused as refusal:
        refusal_show(form, refusal, at="pattern")
    return not form.errors


@login_required
@require_POST
def image_end(request: PageRequest, rule_id: int) -> HttpResponse:
    """Takes a pattern off the list."""
    rule = image_rule_to_remove(user=request.user, rule_id=rule_id)
    image_rule_remove(rule=rule, now=timezone.now(), actor=request.user.username)
    messages.success(request, _("%(pattern)s is removed; running jobs go on.") % {"pattern": rule.pattern})
    return redirect("images")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def skus(request: PageRequest) -> HttpResponse:
    """The hardware kinds with their shares and prices, which an administrator sets here."""
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
    return render(request, "clusters/skus.html", context, status=400 if typed else 200)


def _sku_set(name: str, form: PriceForm | ShareForm, actor: str) -> str:
    typed, now = form.cleaned_data, timezone.now()
    if isinstance(form, ShareForm):
        cpu_milli = int(typed["cores"] * 1000)
        sku_set_share(name=name, cpu_milli=cpu_milli, memory_mb=typed["memory"], now=now, actor=actor)
        return _("What goes with %(sku)s is set.") % {"sku": name}
    sku_set_price(name=name, price=typed["price"], now=now, actor=actor)
    return _("The price of %(sku)s is set.") % {"sku": name}


def _sku_forms(total: SkuTotal, typed: PriceForm | ShareForm | None) -> tuple[ShareForm, PriceForm]:
    """Filled in as it is, the one that was sent as it was typed."""
    share = ShareForm(initial={"cores": f"{total.share_cpu_milli / 1000:g}", "memory": total.share_memory_mb})
    price = PriceForm(initial={"price": total.price})
    return typed if isinstance(typed, ShareForm) else share, typed if isinstance(typed, PriceForm) else price

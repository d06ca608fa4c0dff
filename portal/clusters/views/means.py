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
from portal.clusters.forms import ImageForm, PriceForm
from portal.clusters.models import Sku
from portal.clusters.selectors import cluster_right, image_right, image_rule_to_remove, image_rules, sku_totals
from portal.clusters.services import image_rule_add, image_rule_remove, sku_set_price, vcs_named
from portal.common.errors import Refused
from portal.common.forms import refusal_show


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def images(request: PageRequest) -> HttpResponse:
    """The patterns of the cluster and of one's virtual clusters; an administrator adds to them here."""
    form = ImageForm(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        image_right(user=request.user)
        if form.is_valid() and _allowed(form, request.user.username):
            messages.success(request, _("%(pattern)s may run now.") % {"pattern": form.cleaned_data["pattern"]})
            return redirect("images")
    rules = image_rules(user=request.user).select_related("vc").order_by("vc__name", "pattern")
    context = {"form": form, "rules": rules, "may_set": allowed_everywhere(request.user, Action.IMAGES_SET)}
    return render(request, "clusters/images.html", context, status=400 if form.errors else 200)


def _allowed(form: ImageForm, actor: str) -> bool:
    typed = form.cleaned_data
    try:
        vc = vcs_named([typed["vc"]], path="vc")[0] if typed["vc"] else None
        image_rule_add(vc=vc, pattern=typed["pattern"], note=typed["note"], now=timezone.now(), actor=actor)
    except Refused as refusal:
        refusal_show(form, refusal, at="pattern")
        return False
    return True


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
    """The hardware kinds with their shares and prices; an administrator sets prices here."""
    typed: tuple[str, PriceForm] | None = None
    if request.method == "POST":
        cluster_right(user=request.user)
        name, form = request.POST.get("sku", ""), PriceForm(request.POST)
        if form.is_valid():
            price = form.cleaned_data["price"]
            sku_set_price(name=name, price=price, now=timezone.now(), actor=request.user.username)
            messages.success(request, _("The price of %(sku)s is set.") % {"sku": name})
            return redirect("skus")
        typed = name, form
    kinds = {sku.name: sku for sku in Sku.objects.all()}
    rows = [
        (
            total,
            kinds[total.sku],
            typed[1] if typed and typed[0] == total.sku else PriceForm(initial={"price": total.price}),
        )
        for total in sku_totals()
    ]
    context = {
        "rows": rows,
        "currency": settings.CURRENCY,
        "may_set": allowed_everywhere(request.user, Action.CLUSTER_CONFIGURE),
    }
    return render(request, "clusters/skus.html", context, status=400 if typed else 200)

"""The page of the images that may run."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view, post_view, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Refused
from portal.common.forms import refusal_show
from portal.images.forms import ImageForm
from portal.images.selectors import image_right, image_rule_to_remove, image_rules
from portal.images.services import image_rule_add, image_rule_remove
from portal.teams.selectors.visible import vcs_named


@form_view
def images(request: PageRequest) -> HttpResponse:
    """The patterns of the cluster and of one's virtual clusters; an administrator adds to them here."""
    form = ImageForm(sent(request))
    if request.method == "POST":
        image_right(user=request.user)
        if _allowed(form, request.user.username):
            messages.success(request, _("%(pattern)s may run now.") % {"pattern": form.cleaned_data["pattern"]})
            return redirect("images")
    rules = image_rules(user=request.user).select_related("vc").order_by("vc__name", "pattern")
    context = {"form": form, "rules": rules, "may_set": allowed_everywhere(request.user, Action.IMAGES_SET)}
    return render(request, "images/images.html", context, status=400 if form.errors else 200)


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


@post_view
def image_end(request: PageRequest, rule_id: int) -> HttpResponse:
    """Takes a pattern off the list."""
    rule = image_rule_to_remove(user=request.user, rule_id=rule_id)
    image_rule_remove(rule=rule, **by(request))
    messages.success(request, _("%(pattern)s is removed; running jobs go on.") % {"pattern": rule.pattern})
    return redirect("images")

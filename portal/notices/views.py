"""What one is told of by e-mail, and the administrator's webhook with its log."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from portal.accounts.pages import PageRequest, by, form_view, post_view, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import NotFound
from portal.common.forms import refusals_shown
from portal.notices.forms import AdminChoiceForm, ChoiceForm, WebhookForm
from portal.notices.selectors import deliveries, mails_latest, notice_choice, webhook_get, webhook_right
from portal.notices.services.choices import notice_choice_set
from portal.notices.services.webhook import secret_make, webhook_delete, webhook_set, webhook_test


@form_view
def notices(request: PageRequest) -> HttpResponse:
    """Chooses what is told by e-mail; below, the last mails."""
    user = request.user
    choice = notice_choice(user=user)
    asked = AdminChoiceForm if user.is_cluster_admin else ChoiceForm
    form = asked(sent(request), initial={"kinds": choice.kinds, "alerts": choice.alerts})
    if form.is_valid():
        typed = form.cleaned_data
        notice_choice_set(user=user, kinds=typed["kinds"], alerts=typed.get("alerts"), now=timezone.now())
        messages.success(request, _("Your choice is saved."))
        return redirect("notices")
    context = {"form": form, "sending": settings.EMAIL_ON, "mails": mails_latest(user=user)}
    return render(request, "notices/choice.html", context, status=400 if form.errors else 200)


@sensitive_post_parameters("secret")
@form_view
def webhook(request: PageRequest) -> HttpResponse:
    """Sets the webhook, or makes a secret for it, which is shown once; below, the last deliveries."""
    user = request.user
    try:
        hook = webhook_get(user=user)
    except NotFound:
        hook = None
    initial = {"url": hook.url, "kinds": hook.kinds} if hook else {}
    form = WebhookForm(sent(request), initial=initial)
    made = ""
    if request.method == "POST":
        webhook_right(user=user, action=Action.WEBHOOK_SET)
        if "make" in request.POST:
            made = secret_make()
            form = WebhookForm(initial={"url": request.POST.get("url", ""), "kinds": request.POST.getlist("kinds")})
        elif form.is_valid() and _stored(form, user.username):
            messages.success(request, _("The webhook is set."))
            return redirect("webhook")
        elif request.POST.get("made"):
            made = request.POST.get("secret", "")
    context = {
        "form": form,
        "made": made,
        "hook": hook,
        "deliveries": deliveries(user=user)[:20],
        "may_set": allowed_everywhere(user, Action.WEBHOOK_SET),
    }
    return render(request, "notices/webhook.html", context, status=400 if form.errors else 200)


def _stored(form: WebhookForm, actor: str) -> bool:
    typed = form.cleaned_data
    with refusals_shown(form, say=str):
        webhook_set(
            url=typed["url"], kinds=typed["kinds"], secret=typed["secret"] or None, actor=actor, now=timezone.now()
        )
        return True
    return False


@post_view
def webhook_try(request: PageRequest) -> HttpResponse:
    """Sends a test."""
    webhook_right(user=request.user, action=Action.WEBHOOK_SET)
    webhook_test(**by(request))
    messages.success(request, _("A test is sent within seconds; look again at the deliveries."))
    return redirect("webhook")


@post_view
def webhook_remove(request: PageRequest) -> HttpResponse:
    """Removes it."""
    webhook_right(user=request.user, action=Action.WEBHOOK_SET)
    webhook_delete(**by(request))
    messages.success(request, _("The webhook is removed; what waited is given up."))
    return redirect("webhook")

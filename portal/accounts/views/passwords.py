"""Password reset: the page to ask for a link, and the page that the link leads to."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.accounts.forms import ForgottenForm, NewPasswordForm
from portal.accounts.pages import PageRequest
from portal.accounts.resets import reset_ask, reset_password, reset_user
from portal.common.errors import Refused


@require_http_methods(["GET", "HEAD", "POST"])
def password_forgotten(request: PageRequest) -> HttpResponse:
    """Asks for a name or address; the answer is the same whether or not there is such an account."""
    form = ForgottenForm(request.POST or None)
    status, asked = 200, ""
    if request.method == "POST" and form.is_valid() and settings.EMAIL_ON:
        asked = form.cleaned_data["typed"]
        try:
            reset_ask(typed=asked, address=request.META.get("REMOTE_ADDR", ""), now=timezone.now())
        except Refused as refusal:
            form.add_error(None, refusal.detail)
            status, asked = refusal.status, ""
    context = {"form": form, "asked": asked, "mails": settings.EMAIL_ON, "passwords": settings.PASSWORDS}
    return render(request, "accounts/forgotten.html", context, status=status)


@sensitive_post_parameters("new")
@require_http_methods(["GET", "HEAD", "POST"])
def password_new(request: PageRequest, uid: str, token: str) -> HttpResponse:
    """Sets the new password; an invalid link is refused with an explanation."""
    user = reset_user(uid=uid, token=token)
    form = NewPasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            reset_password(uid=uid, token=token, password=form.cleaned_data["new"])
        except ValidationError as error:
            form.add_error("new", error)
        else:
            messages.success(request, _("The password is changed. Log in with it now."))
            return redirect("login")
    context = {"form": form, "account": user}
    return render(request, "accounts/new_password.html", context, status=400 if form.errors else 200)

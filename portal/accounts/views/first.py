"""The page that creates a new portal's first administrator."""

from __future__ import annotations

from django.contrib.auth import login
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.accounts.first import first_administrator_make, first_needed
from portal.accounts.forms import FirstForm
from portal.accounts.pages import PageRequest
from portal.common.errors import NotFound, Refused


@sensitive_post_parameters("code", "password")
@require_http_methods(["GET", "HEAD", "POST"])
def first(request: PageRequest) -> HttpResponse:
    """Asks for the code from the log, a name and a password. 404 once there is an administrator."""
    if not first_needed():
        raise NotFound("page")
    form = FirstForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        address = request.META.get("REMOTE_ADDR", "")
        try:
            user = first_administrator_make(**form.cleaned_data, address=address, now=timezone.now())
        except ValidationError as error:
            form.add_error(None, error)
            status = 400
        except Refused as refusal:
            form.add_error(None, refusal.detail)
            status = refusal.status
        else:
            login(request, user)
            return redirect("home")
    return render(
        request, "accounts/first.html", {"form": form}, status=400 if form.errors and status == 200 else status
    )

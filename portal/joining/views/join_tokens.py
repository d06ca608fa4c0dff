"""Join token pages: made, shown once, revoked."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from portal.accounts.pages import PageRequest, by, form_view, post_view, sent
from portal.common.errors import Refused
from portal.common.forms import refusal_show
from portal.joining.forms import JoinTokenForm
from portal.joining.selectors import join_token_get, join_tokens_of
from portal.joining.services.join_tokens import (
    NewJoinToken,
    join_line,
    join_line_in_container,
    join_token_create,
    join_token_revoke,
)
from portal.joining.services.joining import portal_authority, redis_is_out_of_reach


@form_view
def join_tokens(request: PageRequest) -> HttpResponse:
    """Lists the tokens; shows a new one once, with the command to run on the servers."""
    tokens = join_tokens_of(user=request.user)
    form = JoinTokenForm(sent(request))
    made = _made(form, request.user.username) if form.is_valid() else None
    context = {
        "form": JoinTokenForm() if made else form,
        "made": made,
        "line": join_line(made.secret) if made else "",
        "line_in_container": join_line_in_container(made.secret) if made else "",
        "tokens": tokens,
        "now": timezone.now(),
        "redis_is_local": redis_is_out_of_reach(),
    }
    return render(request, "joining/join_tokens.html", context, status=400 if form.errors else 200)


def _made(form: JoinTokenForm, actor: str) -> NewJoinToken | None:
    """Makes the token; None if the form is not valid, with every fault shown at its field."""
    try:
        return join_token_create(**form.cleaned_data, actor=actor, now=timezone.now())
    except Refused as refusal:
        refusal_show(form, refusal, at="uses")
        return None


@post_view
def join_token_end(request: PageRequest, token_id: int) -> HttpResponse:
    """Revokes a token."""
    token = join_token_get(user=request.user, token_id=token_id)
    join_token_revoke(token=token, **by(request))
    messages.success(request, _("The token is revoked; servers that have joined stay."))
    return redirect("join-tokens")


@require_safe
def authority(request: HttpRequest) -> HttpResponse:
    """The CA of the portal's own certificate (PEM), for joining servers and browsers that lack it: no secret. Whoever
    fetches it must compare its digest. 404 if the system's CAs suffice."""
    text = portal_authority()
    if not text:
        words = "The certificate of this portal is of an authority that systems know.\n"
        return HttpResponse(words, status=404, content_type="text/plain; charset=utf-8")
    return HttpResponse(text, content_type="application/x-pem-file")

"""Pages to register a server, show what to run on it, and see whether it reports."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render

from portal.accounts.pages import PageRequest, by, form_view, sent
from portal.common.errors import Conflict
from portal.common.forms import refusals_shown
from portal.hardware.models import Node
from portal.hardware.selectors.live import node_arrived
from portal.joining.forms import JoiningForm
from portal.joining.services.joining import (
    PASSWORD,
    agent_environment,
    agent_lines,
    node_new_key,
    node_register,
    redis_is_out_of_reach,
)
from portal.teams.selectors.visible import node_add_right, node_get


@form_view
def node_new(request: PageRequest) -> HttpResponse:
    """Registers a server and shows its key once."""
    node_add_right(user=request.user)
    form = JoiningForm(sent(request))
    if form.is_valid():
        with refusals_shown(form, at="name"):
            made = node_register(**form.cleaned_data, **by(request))
            return _page(request, made.node, key=made.key, registered=True)
    return render(request, "joining/node_new.html", {"form": form}, status=400 if form.errors else 200)


@form_view
def node_join(request: PageRequest, name: str) -> HttpResponse:
    """Shows how to connect the server and whether it reports; replaces a lost key, and shows the new one once."""
    node = node_get(user=request.user, name=name)
    node_add_right(user=request.user)
    if request.htmx:
        return render(request, "joining/parts/arrival.html", _arrival(node))
    if request.method != "POST":
        return _page(request, node)
    try:
        made = node_new_key(node=node, **by(request))
    except Conflict as conflict:
        return _page(request, node, refused=conflict.detail, status=409)
    return _page(request, node, key=made.key)


def _page(
    request: PageRequest, node: Node, *, key: str = "", registered: bool = False, refused: str = "", status: int = 200
) -> HttpResponse:
    environment = agent_environment(node=node, secret=bool(key or registered))
    context = {
        **_arrival(node),
        "key": key,
        "registered": registered,
        "refused": refused,
        "lines": agent_lines(environment, key=key),
        "password_left_out": f":{PASSWORD}@" in environment["BERTH_NODE_REDIS_URL"],
        "own_account": settings.REDIS_ACCOUNTS,
        "redis_is_local": redis_is_out_of_reach(),
    }
    return render(request, "joining/node_join.html", context, status=status)


def _arrival(node: Node) -> dict[str, object]:
    return {"node": node, "arrived": node_arrived(node=node)}

"""Who asks, where a proxy stands before the portal, and where somebody only says so."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from uvicorn.main import main as uvicorn_command
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from portal.accounts.models import AuditEntry
from portal.common.heads import BoundedHeads
from portal.embedded.processes import commands
from tests.support.people.cast import HOST

ROOT = Path(__file__).parents[3]
FORGED = {"X-Forwarded-For": "192.0.2.66", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
STARTS = {
    "embedded": commands(bind="127.0.0.1", port=8000)["web"][2:],
    "compose": [str(word) for word in COMPOSE["services"]["web"]["command"]],
    "image": json.loads((ROOT / "portal" / "Dockerfile").read_text().rpartition("\nCMD ")[2].partition("\n")[0]),
    "by hand": shlex.split(
        (ROOT / "docs" / "admin" / "processes.md").read_text().partition("| web | `")[2].partition("`")[0]
    ),
}  # fmt: skip


def asked(application: Any, method: str, path: str, **request: Any) -> httpx.Response:
    """What a client on this machine is answered that says to have come from elsewhere."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 40_000))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=FORGED) as client:
            return await client.request(method, path, **request)

    return asyncio.run(ask())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("proxies", "address"), [((), "127.0.0.1"), (("127.0.0.0/8",), "192.0.2.66")])
def test_only_a_named_proxy_says_who_asks(
    proxies: tuple[str, ...], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.asgi import application

    if proxies:
        monkeypatch.setattr(
            application, "trusted_hosts", ProxyHeadersMiddleware(application.app, [*proxies]).trusted_hosts
        )
    refused = asked(application, "POST", "/api/v1/login", json={"username": "nobody", "password": "wrong"})
    assert refused.status_code == 401
    assert AuditEntry.objects.get().address == address


@pytest.mark.parametrize("start", STARTS)
def test_the_web_server_itself_believes_nobody(start: str) -> None:
    """By its default it believes whoever is on the same machine."""
    told = uvicorn_command.make_context("uvicorn", STARTS[start][1:])
    assert told.params["app"] == "portal.asgi:application"
    assert told.params["proxy_headers"] is False


@pytest.mark.parametrize("start", STARTS)
def test_the_web_server_takes_no_endless_head_or_message(start: str) -> None:
    told = uvicorn_command.make_context("uvicorn", STARTS[start][1:])
    assert told.params["http"] == f"{BoundedHeads.__module__}:{BoundedHeads.__name__}"
    assert told.params["ws_max_size"] == 65_536


def test_the_compose_stack_names_its_own_proxy() -> None:
    named = COMPOSE["x-portal"]["environment"]["BERTH_TRUSTED_PROXIES"]
    assert named == COMPOSE["services"]["proxy"]["networks"]["edge"]["ipv4_address"]

"""How the web process takes an HTTP request."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest
from django.db import connection

from portal.accounts.models import ClusterRole, Scope
from portal.accounts.services import token_create
from portal.common.handler import InOneThread
from tests.support.people.cast import HOST, person

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = 25
"""More often than there are connections to the database."""


@pytest.fixture
def token() -> str:
    admin = person("root", ClusterRole.ADMIN)
    now = datetime.now(UTC)
    return token_create(user=admin, name="test", scope=Scope.READ, now=now, expires_at=None).secret


@pytest.mark.parametrize("address", ["/api/v1/me", "/api/v1/audit/export"])
def test_an_answer_gives_its_connections_back(token: str, address: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no pool of connections")
    pool = connection.pool  # type: ignore[attr-defined]
    before = in_use(pool)

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(cast(Any, InOneThread()))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            headers = {"Authorization": f"Bearer {token}"}
            return [(await client.get(address, headers=headers)).status_code for _ in range(ASKED)]

    assert asyncio.run(ask()) == [200] * ASKED
    assert in_use(pool) == before


def in_use(pool: object) -> int:
    counts = pool.get_stats()  # type: ignore[attr-defined]
    return int(counts["pool_size"] - counts["pool_available"])

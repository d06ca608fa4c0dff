"""The settings of the database reach the connection that is there: libpq, its socket, PostgreSQL's own lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.restored_portal import Portal
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres_copy(postgres, "connected")


def connected(folder: Path, url: str, **settings: str) -> dict[str, Any]:
    """What a process of the portal says of its connection."""
    told: dict[str, Any] = json.loads(Portal(folder, url).module("tests.integration.common.connected", **settings))
    return told


@pytest.mark.parametrize("pool", ["20", "0"])
def test_a_server_whose_machine_vanished_is_given_up_within_half_a_minute(url: str, tmp_path: Path, pool: str) -> None:
    found = connected(tmp_path, url, BERTH_DATABASE_POOL=pool)
    assert found["told"]["connect_timeout"] == "10"
    assert found["socket"] == {
        "SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000,
    }  # fmt: skip


def test_an_address_that_says_how_long_to_wait_is_obeyed(url: str, tmp_path: Path) -> None:
    found = connected(tmp_path, f"{url}?keepalives_idle=60&tcp_user_timeout=90000&connect_timeout=3")
    assert found["told"]["connect_timeout"] == "3"
    assert (found["socket"]["TCP_KEEPIDLE"], found["socket"]["TCP_USER_TIMEOUT"]) == (60, 90_000)
    assert found["socket"]["TCP_KEEPINTVL"] == 5


def test_plans_are_kept_by_postgresql_unless_they_are_switched_off(url: str, tmp_path: Path) -> None:
    """Off also leaves out cursors that outlive a transaction: a pooler hands either on to somebody else."""
    usual, off = (connected(tmp_path, url, **more) for more in ({}, {"BERTH_DATABASE_PREPARE": "0"}))
    assert usual["statements"] > 0
    assert usual["cursors"] == 1
    assert (off["statements"], off["cursors"]) == (0, 0)

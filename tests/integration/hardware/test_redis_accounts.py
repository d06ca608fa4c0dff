"""Accounts of Redis for nodes: there as long as their nodes are, limited to what is theirs, and back by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.utils import timezone

from nodes.protocol.accounts import node_account, reports_account, reports_url
from portal.cluster.services.retiring import node_retire
from portal.common.checks import redis_keeps_nodes_apart
from portal.hardware.models import Node
from portal.hardware.services.redis_accounts import redis_accounts_apply, redis_address
from portal.joining.services.joining import node_new_key, node_register
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
MINE = "berth:node:gpu01:log:a1"


def registered(name: str) -> Node:
    return node_register(name=name, actor="root", now=timezone.now()).node


def as_node(node: Node) -> redis.Redis:
    return redis.Redis.from_url(redis_address(node))


def as_reporter(node: Node) -> redis.Redis:
    return redis.Redis.from_url(reports_url(redis_address(node), node.name))


def accounts(server: RedisServer) -> set[str]:
    with server.client() as client:
        told: Any = client.acl_users()
    return {name for name in told if name != "default"}


@pytest.fixture
def gpu01(redis_server: RedisServer) -> Node:
    return registered("gpu01")


def test_a_node_has_its_accounts_from_when_it_is_registered_until_it_is_removed(
    gpu01: Node, redis_server: RedisServer
) -> None:
    assert accounts(redis_server) == {node_account("gpu01"), reports_account("gpu01")}
    with as_node(gpu01) as client, as_reporter(gpu01) as reporter:
        assert client.xadd(MINE, {"data": b"x"}, id="1-0") == b"1-0"
        assert reporter.lpush("reports", "x") == 1
        node_retire(node=gpu01, now=timezone.now(), actor="root")
        with pytest.raises(redis.RedisError):
            client.ping()
    assert accounts(redis_server) == set()


REFUSED: list[tuple[str, ...]] = [
    ("XRANGE", "berth:node:gpu02:log:a2", "-", "+"),
    ("XRANGE", MINE, "-", "+"),
    ("XREAD", "STREAMS", "berth:node:gpu02:sessions", "0"),
    ("XADD", "berth:node:gpu02:log:a2", "*", "data", "x"),
    ("DEL", "berth:node:gpu02:log:a2"),
    ("BRPOP", "node.gpu02", "1"),
    ("LPUSH", "node.gpu02", "x"),
    ("LPUSH", "scheduler", "x"),
    ("BRPOP", "reports", "1"),
    ("DEL", "reports"),
    ("LPUSH", "reports", "x"),
    ("SADD", "_kombu.binding.reports", "x"),
    ("GET", "berth:portal:look"),
    ("PUBLISH", "berth__group__events", "x"),
    ("SUBSCRIBE", "berth:logs"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("EVAL", "return 1", "0"),
    ("MONITOR",),
    ("CLIENT", "LIST"),
]


def let_through(client: redis.Redis, tried: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """What of it Redis did not refuse for want of rights."""
    through = []
    for words in tried:
        try:
            client.execute_command(*words)  # type: ignore[no-untyped-call]
        except redis.exceptions.NoPermissionError:
            continue
        through.append(words)
    return through


def test_beyond_its_own_keys_an_account_reaches_nothing(gpu01: Node) -> None:
    with as_node(gpu01) as client:
        assert let_through(client, REFUSED) == []
        assert let_through(client, [("XLEN", MINE)]) == [("XLEN", MINE)]


def test_the_account_for_reports_pushes_and_counts_them_and_does_nothing_else(gpu01: Node) -> None:
    tried = [("BRPOP", "reports", "1"), ("DEL", "reports"), ("LPUSH", "node.gpu01", "x"), ("LLEN", "node.gpu01")]
    may = [("LPUSH", "reports", "x"), ("LLEN", "reports")]
    with as_reporter(gpu01) as client:
        assert let_through(client, [*tried, *may]) == may


def test_a_new_key_brings_a_new_password_and_puts_out_who_has_the_old_one(gpu01: Node) -> None:
    old = redis_address(gpu01)
    with as_node(gpu01) as client:
        assert client.ping()
        node_new_key(node=gpu01, actor="root", now=timezone.now())
        with pytest.raises(redis.RedisError):
            client.ping()
    with pytest.raises(redis.AuthenticationError), redis.Redis.from_url(old) as client:
        client.ping()
    with as_node(gpu01) as client:
        assert client.ping()


def test_an_emptied_redis_gets_the_accounts_back(gpu01: Node, redis_server: RedisServer) -> None:
    redis_server.restart_empty()
    assert accounts(redis_server) == set()
    assert redis_accounts_apply()
    with as_node(gpu01) as client:
        assert client.ping()


def test_who_is_connected_stays_so_when_all_is_put_in_place_again(gpu01: Node, redis_server: RedisServer) -> None:
    other = registered("gpu02")
    with as_node(gpu01) as client, redis_server.client() as root:
        assert client.ping()
        first = client.connection_pool
        root.acl_deluser(node_account(other.name))
        root.acl_setuser(node_account("gpu01"), enabled=True, commands=["+get"])
        root.acl_setuser("node.stranger", enabled=True)
        assert redis_accounts_apply()
        assert client.ping()
        assert client.connection_pool is first
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get(MINE)
        assert "node.stranger" not in accounts(redis_server)
        assert node_account("gpu02") in accounts(redis_server)


def test_nodes_whose_names_begin_alike_are_apart(gpu01: Node) -> None:
    longer = registered("gpu01.rack-1")
    with as_node(longer) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.xadd(MINE, {"data": b"x"})
    with as_node(gpu01) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.lpush("node.gpu01.rack-1", "x")


def test_a_redis_that_takes_no_accounts_is_told_of_and_stops_nothing(
    settings: Any, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    from portal.common.wake import redis_once

    with redis_server.client() as root:
        root.acl_setuser("managed", enabled=True, passwords=["+pw"], categories=["+@all"], keys=["*"],
                         commands=["-acl"])  # fmt: skip
    settings.REDIS_URL = redis_server.url.replace("redis://", "redis://managed:pw@")
    redis_once.cache_clear()
    try:
        assert not redis_accounts_apply()
        assert "does not allow this account to do it" in caplog.text
        assert [one.id for one in redis_keeps_nodes_apart(None)] == ["berth.E008"]
        settings.REDIS_ACCOUNTS = False
        assert redis_keeps_nodes_apart(None) == []
        assert redis_accounts_apply()
    finally:
        redis_once.cache_clear()
        with redis_server.client() as root:
            root.acl_deluser("managed")


def test_a_redis_that_lets_anybody_in_is_told_of(redis_server: RedisServer) -> None:
    assert [one.id for one in redis_keeps_nodes_apart(None)] == ["berth.W003"]

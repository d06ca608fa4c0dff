"""Limits on how often something may be done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from portal.common.errors import RateLimited
from portal.common.throttles import Rate, RateLimit, by_address
from portal.env.values import BadSetting, env_rate
from tests.support.services.redis_server import RedisServer

NOON = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)
TWICE = RateLimit("test", Rate(2, 60))


@pytest.fixture(params=["Redis", "no Redis"], autouse=True)
def _store(request: pytest.FixtureRequest, redis_server: RedisServer) -> None:
    if request.param == "no Redis":
        redis_server.kill()


def key(request: pytest.FixtureRequest) -> str:
    """Each test's own: the counts of a process outlive a test."""
    return str(request.node.nodeid)


def test_after_the_count_one_waits_for_the_next_window(request: pytest.FixtureRequest) -> None:
    for _ in range(2):
        TWICE.take(key(request), now=NOON)
    with pytest.raises(RateLimited) as refused:
        TWICE.take(key(request), now=NOON)
    assert refused.value.retry_after_s == 50
    TWICE.take(key(request), now=NOON + timedelta(seconds=50))


def test_each_key_and_each_limit_counts_for_itself(request: pytest.FixtureRequest) -> None:
    other = RateLimit("other", Rate(2, 60))
    for limit, name in [(TWICE, key(request)), (TWICE, key(request) + "b"), (other, key(request))]:
        for _ in range(2):
            limit.take(name, now=NOON)


def test_what_is_given_back_counts_for_nothing_and_the_rest_stays(request: pytest.FixtureRequest) -> None:
    TWICE.take(key(request), now=NOON)
    for _ in range(5):
        TWICE.take(key(request), now=NOON)
        TWICE.give_back(key(request), now=NOON)
    TWICE.take(key(request), now=NOON)
    with pytest.raises(RateLimited):
        TWICE.take(key(request), now=NOON)


def test_what_is_cleared_counts_from_none(request: pytest.FixtureRequest) -> None:
    for _ in range(5):
        TWICE.take(key(request), now=NOON)
        TWICE.clear(key(request), now=NOON)


@pytest.mark.parametrize(("text", "rate"), [("10/min", (10, 60)), ("1/s", (1, 1)), ("5/day", (5, 86400))])
def test_a_rate_is_a_count_per_time(monkeypatch: pytest.MonkeyPatch, text: str, rate: tuple[int, int]) -> None:
    monkeypatch.setenv("RATE", text)
    assert env_rate("RATE", "1/s") == rate


@pytest.mark.parametrize("text", ["", "10", "0/min", "-1/min", "x/min", "10/week"])
def test_a_rate_that_is_none_stops_the_start_with_a_sentence(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RATE", text)
    with pytest.raises(BadSetting, match="RATE=.*must be a count per"):
        env_rate("RATE", "1/s")


def test_a_machine_counts_once_whichever_of_its_addresses_it_takes() -> None:
    """Of IPv6 it has 2**64; of IPv4 the same one in two forms."""
    assert len({by_address(f"2001:db8:0:7::{number:x}") for number in range(9)}) == 1
    assert by_address("2001:db8:0:7::1") != by_address("2001:db8:0:8::1")
    assert by_address("::ffff:10.0.0.1") == by_address("10.0.0.1") != by_address("10.0.0.2")
    assert by_address("fe80::1%eth0") == by_address("fe80::2%eth1")
    assert by_address("") == by_address("")

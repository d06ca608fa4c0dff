"""Findings about the portal: Redis by the node's own account, clocks, versions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry
from urllib3.exceptions import HTTPError

from nodes.agent.check.finding import Finding, failed, ok, warning
from nodes.agent.clock import portal_skew_s
from nodes.agent.config.options import Options
from nodes.agent.connecting import redis_endpoint
from nodes.agent.hardware.inventory import AGENT_VERSION
from nodes.protocol.accounts import reports_url
from nodes.protocol.connecting import Endpoint, connection_fault
from nodes.protocol.names import log_stream
from nodes.protocol.versions import release, releases_fit

ANSWER_S = 5
SKEW_WARNING_S, SKEW_FAILED_S = 5, 15
"""Skews that are more than anybody should bear, and at which every order has expired when it comes."""
PORTAL_CURE = "Set BERTH_NODE_PORTAL_URL to the portal's address."


def portal_findings(options: Options) -> Iterator[Finding]:
    yield _redis(options)
    yield from _portal(options)


def redis_finding(url: str, node: str) -> Finding:
    """Whether an agent of this node can use Redis there, by both of its accounts."""
    began = time.monotonic()
    try:
        for address in (url, reports_url(url, node)):
            with _client(address) as client:
                client.ping()
        with _client(url) as client:
            client.xlen(log_stream(node, "check"))
            wide = _may_all(client)
    except (redis.RedisError, OSError) as error:
        text, _, cure = connection_fault(error, redis_endpoint(url), now_ms=_now_ms()).partition(": ")
        return failed("redis", text, cure[:1].upper() + cure[1:])
    took = f"answers in {1000 * (time.monotonic() - began):.0f} ms"
    if wide:
        cure = "Join again: this node then gets an account that reaches only what is its own."
        return warning("redis", f"{took}, by an account that may do everything", cure)
    return ok("redis", took)


def _redis(options: Options) -> Finding:
    return redis_finding(options.redis_url, options.name)


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)
    )


def _may_all(client: redis.Redis) -> bool:
    try:
        client.execute_command("ACL", "WHOAMI")  # type: ignore[no-untyped-call]
    except redis.ResponseError:
        return False
    return True


def _portal(options: Options) -> Iterator[Finding]:
    if not options.portal_url:
        yield warning("clock", "not compared: the portal's address is not known here", PORTAL_CURE)
        return
    endpoint = Endpoint("the portal", options.portal_url, "BERTH_NODE_PORTAL_URL", "BERTH_NODE_PORTAL_CA")
    trusted = str(options.portal_ca) if options.portal_ca else True
    try:
        answer = requests.get(f"{options.portal_url.rstrip('/')}/healthz", timeout=ANSWER_S, verify=trusted)
    except (requests.RequestException, HTTPError, OSError) as error:
        text, _, cure = connection_fault(error, endpoint, now_ms=_now_ms()).partition(": ")
        yield failed("portal", text, cure[:1].upper() + cure[1:])
        return
    yield _clock(answer)
    yield _version(answer, options.portal_url)


def _clock(answer: requests.Response) -> Finding:
    skew = portal_skew_s(answer.headers.get("Date"), now_ms=_now_ms())
    cure = "Let this server follow a time server: timedatectl set-ntp true"
    if skew is None:
        return warning("clock", "the portal tells no time", "Ask at BERTH_NODE_PORTAL_URL without a proxy between.")
    text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the portal's"
    if abs(skew) > SKEW_FAILED_S:
        return failed("clock", text, cure)
    return warning("clock", text, cure) if abs(skew) > SKEW_WARNING_S else ok("clock", "as the portal's")


def _version(answer: requests.Response, url: str) -> Finding:
    try:
        portal = str(answer.json()["version"])
    except (ValueError, KeyError, TypeError):
        return failed("version", f"{url} does not answer as a portal of Berth does", PORTAL_CURE)
    text = f"agent {AGENT_VERSION}, portal {portal}"
    return ok("version", text) if release(portal) == release(AGENT_VERSION) else _apart(text, portal)


def _apart(text: str, portal: str) -> Finding:
    newer = release(portal) > release(AGENT_VERSION)
    cure = f"Install the agent of {portal} here." if newer else f"Bring the portal up to {AGENT_VERSION}."
    if releases_fit(AGENT_VERSION, portal):
        return warning("version", text, cure)
    return failed("version", f"{text}: more than one release apart", cure)


def _now_ms() -> int:
    return int(time.time() * 1000)

"""Endpoints of Redis and portal, for sentences that say why they cannot be used."""

from __future__ import annotations

from pathlib import Path

from nodes.agent.write_error import NO_ROOM, cannot_write
from nodes.protocol.connecting import Endpoint, connection_fault

REFUSED = (
    "know this node's account: the portal puts it in place within seconds; if this stays, the node was removed or has "
    "a new key: join again"
)
FORBIDDEN = "bring agent and portal to one version"


def redis_endpoint(url: str) -> Endpoint:
    """Redis as the agent's settings name it."""
    return Endpoint("Redis", url, "BERTH_NODE_REDIS_URL", "BERTH_NODE_REDIS_CA", REFUSED, FORBIDDEN)


def portal_endpoint(url: str) -> Endpoint:
    """The portal's code, at an address that the portal gives."""
    return Endpoint("the portal", url, "BERTH_URL of the portal", "BERTH_NODE_PORTAL_CA")


def redis_fault(error: BaseException, url: str, *, now_ms: int) -> str:
    """Why something did not get to Redis or back; it may be a disk of this server."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return cannot_write(error, Path("the agent's state folder"))
    return connection_fault(error, redis_endpoint(url), now_ms=now_ms)

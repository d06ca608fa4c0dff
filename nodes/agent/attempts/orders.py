"""The agent's one Celery task: receives a list of orders."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog
from celery import Celery

from nodes.agent.clock import Clock
from nodes.agent.hardware.inventory import AGENT_VERSION
from nodes.agent.log_throttle import LogThrottle
from nodes.protocol.envelope import EnvelopeExpired, EnvelopeRejected, SignedByAnother, envelope_open
from nodes.protocol.messages import Desired, decode
from nodes.protocol.names import DESIRED_TASK

log = structlog.get_logger(__name__)


def tasks_register(
    app: Celery, *, node: str, portal_public_key: str, clock: Clock, take: Callable[[Desired], None]
) -> None:
    """Registers ``node.desired`` on the app: verify, decode, ``take``, return."""
    throttle = LogThrottle(clock.monotonic)

    @app.task(name=DESIRED_TASK, ignore_result=True, shared=False)
    def desired(envelope: str) -> None:
        try:
            body = envelope_open(
                envelope, public=portal_public_key, sender="portal", to=node, kind="desired", now_ms=clock.now_ms()
            )
            message = decode(body, Desired)
        except (EnvelopeRejected, msgspec.MsgspecError) as error:
            if throttle.new(why := _why(error)):
                log.warning("orders refused", reason=why)
            return
        throttle.over()
        take(message)


def _why(error: Exception) -> str:
    if isinstance(error, EnvelopeExpired):
        return f"{error}: set it right (a time server: timedatectl set-ntp true), or the portal's"
    if isinstance(error, SignedByAnother):
        return (
            "they are signed by another key than BERTH_NODE_PORTAL_PUBLIC_KEY: the portal has a new one, or another "
            "portal sends them; let this server join again (berth-node join URL TOKEN)"
        )
    if isinstance(error, msgspec.MsgspecError):
        return (
            f"they cannot be read by this agent of version {AGENT_VERSION} ({error}): install the agent of the "
            "portal's release here (berth-node check names it)"
        )
    return str(error)

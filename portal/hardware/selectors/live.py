"""Current GPU readings: the newest samples of their nodes, from Redis."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from redis import RedisError

from nodes.protocol.messages import GpuSample, Sample, decode
from nodes.protocol.names import samples_key
from portal.common.wake import redis_once
from portal.hardware.models import Node

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Live:
    """A GPU's reading, and when it was taken."""

    at: datetime
    reading: GpuSample


def gpus_live(*, nodes: Collection[str]) -> dict[tuple[str, str], Live]:
    """The newest reading of each GPU of these nodes, by reporting node and UUID; none for a node silent for a minute,
    and none at all while Redis is away. One request for any number of nodes."""
    if not nodes:
        return {}
    try:
        kept = redis_once().mget([samples_key(node) for node in nodes])
    except RedisError as error:
        log.warning("no readings of GPUs: %s", error)
        return {}
    return {
        (node, gpu.uuid): Live(at, gpu)
        for node, text in zip(nodes, kept, strict=True)
        if isinstance(text, bytes)
        for at, gpu in _read(text)
    }


def _read(text: bytes) -> list[tuple[datetime, GpuSample]]:
    """Empty if it cannot be decoded: a node may write anything, of another release or another century."""
    try:
        sample = decode(text, Sample)
        at = datetime.fromtimestamp(sample.at_ms / 1000, UTC)
    except (msgspec.MsgspecError, ValueError, OverflowError, OSError) as error:
        log.warning("a reading cannot be read: %s", error)
        return []
    return [(at, gpu) for gpu in sample.gpus]


def node_arrived(*, node: Node) -> bool:
    """Whether it has reported since it got its key. One query."""
    keyed = node.events.filter(code__in=["joined", "new_key"]).order_by("-id").values_list("at", flat=True).first()
    return node.last_report_at is not None and (keyed is None or node.last_report_at > keyed)

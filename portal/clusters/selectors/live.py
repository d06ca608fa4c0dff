"""What GPUs show now: the newest readings of their nodes, from Redis."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from redis import RedisError

from nodes.protocol import GpuSample, Sample, decode, samples_key
from portal.common.wake import redis_once

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Live:
    """A GPU's reading, of which node, and when it was taken."""

    node: str
    at: datetime
    reading: GpuSample


def gpus_live(*, nodes: Collection[str]) -> dict[str, Live]:
    """The newest reading of each GPU of these nodes, by its UUID; none of a node that was silent for a minute, and none
    at all while Redis is away. One request for any number of nodes."""
    if not nodes:
        return {}
    try:
        kept = redis_once().mget([samples_key(node) for node in nodes])
    except RedisError as error:
        log.warning("no readings of GPUs: %s", error)
        return {}
    found = {}
    for node, text in zip(nodes, kept, strict=True):
        if isinstance(text, bytes) and (sample := _read(text)):
            at = datetime.fromtimestamp(sample.at_ms / 1000, UTC)
            found.update({gpu.uuid: Live(node, at, gpu) for gpu in sample.gpus})
    return found


def _read(text: bytes) -> Sample | None:
    """None for what an agent of another release wrote so that it cannot be read."""
    try:
        return decode(text, Sample)
    except msgspec.MsgspecError as error:
        log.warning("a reading cannot be read: %s", error)
        return None

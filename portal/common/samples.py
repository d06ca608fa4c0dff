"""Live samples of nodes: the newest reading in Redis, for pages; it expires by itself."""

from __future__ import annotations

import logging

from redis import RedisError

from nodes.protocol import Sample, encode, samples_key
from portal.common.wake import redis_once

log = logging.getLogger(__name__)

KEPT_S = 60


def sample_keep(*, node: str, sample: Sample) -> None:
    """Keep a node's newest readings for a minute; without effect while Redis is away."""
    try:
        redis_once().set(samples_key(node), encode(sample), ex=KEPT_S)
    except RedisError as error:
        log.warning("sample of %s not kept: %s", node, error)

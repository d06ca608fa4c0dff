"""Wakes the scheduler and nodes when there is something new. A lost call costs one cycle, never more."""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from django.conf import settings
from redis import Redis, RedisError

log = logging.getLogger(__name__)

LOOK_TASK = "scheduler.look"
LOOK_FLAG = "berth:portal:look"
TRY_SECONDS = 0.5


@cache
def redis_once() -> Redis:
    """A Redis client that tries once, for half a second, so that a submit succeeds while Redis is down. Keeps its
    connections."""
    return Redis.from_url(settings.REDIS_URL, socket_timeout=TRY_SECONDS, socket_connect_timeout=TRY_SECONDS)


def scheduler_wake() -> None:
    """Asks for a cycle now. Pending calls are coalesced by a flag in Redis, cleared before the cycle reads its rows."""
    try:
        if not redis_once().set(LOOK_FLAG, 1, nx=True, ex=2):
            return
        task_send(LOOK_TASK, queue="scheduler", expires=1)
    except RedisError as error:
        log.warning("scheduler not woken, the next tick finds the row: %s", error)


def scheduler_flag_clear() -> None:
    """Clears the flag; the cycle calls it before it reads, so that later changes ask for another."""
    try:
        redis_once().delete(LOOK_FLAG)
    except RedisError as error:
        log.warning("look flag not cleared, it expires by itself: %s", error)


def task_send(name: str, *args: str, queue: str, expires: float) -> bool:
    """Puts a Celery task on a queue, expiring after ``expires`` seconds; tries once, False if the broker is down. The
    message is built here and sent over the existing connection: Celery takes three times as long, and each cycle sends
    one to every node on which it changes something."""
    until = (datetime.now(UTC) + timedelta(seconds=expires)).isoformat()
    try:
        redis_once().lpush(queue, msgspec.json.encode(celery_message(name, args, until, queue)))
    except RedisError as error:
        log.warning("broker away, %s not sent: %s", name, error)
        return False
    return True


def celery_message(task: str, words: Sequence[str], expires: str | None, queue: str) -> dict[str, Any]:
    """A task with its arguments, in Kombu's format."""
    return {
        "body": base64.b64encode(msgspec.json.encode((words, {}, {}))).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"lang": "py", "task": task, "id": str(uuid.uuid4()), "expires": expires},
        "properties": {
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": str(uuid.uuid4()),
        },
    }

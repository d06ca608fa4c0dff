"""Telling the scheduler and the nodes that there is something new. A lost call costs one cycle, never more."""

from __future__ import annotations

import logging
from functools import cache

from celery import Celery
from django.conf import settings
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

log = logging.getLogger(__name__)

LOOK_TASK = "scheduler.look"
LOOK_FLAG = "berth:portal:look"
TRY_SECONDS = 0.5


@cache
def redis_once() -> Redis:
    """A client that tries once, for half a second: a submit succeeds while Redis is away. Its connections are kept."""
    return Redis.from_url(settings.REDIS_URL, socket_timeout=TRY_SECONDS, socket_connect_timeout=TRY_SECONDS)


@cache
def _sender() -> Celery:
    """Celery's sending side alone: web processes and commands have no worker's app, and nobody may wait long."""
    sender = Celery("berth-sender", set_as_current=False)
    sender.conf.update(settings.CELERY)
    sender.conf.broker_transport_options = {
        **settings.CELERY["broker_transport_options"],
        **{"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0},
        **{"socket_timeout": TRY_SECONDS, "socket_connect_timeout": TRY_SECONDS},
    }
    return sender


def scheduler_wake() -> None:
    """Ask for a cycle now. Calls that wait are one: a flag in Redis, cleared before the cycle reads its rows."""
    try:
        if not redis_once().set(LOOK_FLAG, 1, nx=True, ex=2):
            return
        task_send(LOOK_TASK, queue="scheduler", expires=1)
    except RedisError as error:
        log.warning("scheduler not woken, the next tick finds the row: %s", error)


def scheduler_flag_clear() -> None:
    """Called by the cycle before it reads: a change from now on asks for another look."""
    try:
        redis_once().delete(LOOK_FLAG)
    except RedisError as error:
        log.warning("look flag not cleared, it expires by itself: %s", error)


def task_send(name: str, *args: object, queue: str, expires: float | None = None) -> bool:
    """One try to put a Celery task on a queue; False when the broker is away."""
    try:
        _sender().send_task(name, args=args, queue=queue, expires=expires, retry=False, ignore_result=True)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("broker away, %s not sent: %s", name, error)
        return False
    return True

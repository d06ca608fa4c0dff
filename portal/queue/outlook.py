"""The last plan's order and the last estimates for waiting jobs.

Kept in Redis and never in rows, since places change with every tick. Lost with Redis and restored by the next plan;
without it, pages say that they do not know yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar

import msgspec
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once

log = logging.getLogger(__name__)

QUEUE_KEY = "berth:portal:queue"
QUEUE_KEPT_S = 60
STARTS_KEY = "berth:portal:starts"
STARTS_KEPT_S = 180


class Queue(msgspec.Struct, frozen=True):
    """Waiting jobs in the plan's order. ``places`` count from 1 among those of a virtual cluster that want the same
    hardware; 0: not in the order (the job is paused, or waits for another). ``reserved``: the jobs for which the plan
    keeps GPUs free until they can start."""

    jobs: list[int]
    places: list[int]
    reserved: list[int] = []


class StartRange(msgspec.Struct, frozen=True):
    """When a job will start (ms since 1970): by ``p50`` with even odds, by ``p90`` nine times in ten."""

    p50: int
    p90: int

    @property
    def p50_at(self) -> datetime:
        """``p50`` as a datetime."""
        return datetime.fromtimestamp(self.p50 / 1000, UTC)

    @property
    def p90_at(self) -> datetime:
        """``p90`` as a datetime."""
        return datetime.fromtimestamp(self.p90 / 1000, UTC)


class Score(msgspec.Struct, frozen=True):
    """Accuracy of past estimates: of ``count`` jobs, ``hits`` started by their p90; half were off from their p50 by at
    most ``off_s`` seconds."""

    count: int
    hits: int
    off_s: int

    @property
    def percent(self) -> int:
        """The percentage that started by their p90, rounded down."""
        return 100 * self.hits // self.count

    @property
    def off(self) -> timedelta:
        """``off_s`` as a timedelta."""
        return timedelta(seconds=self.off_s)


class Endless(msgspec.Struct, frozen=True):
    """Why a start has no estimate: ``count`` jobs, the first of which are in ``jobs``, have no time limit, and too few
    runs like theirs have ended to know how long they run."""

    jobs: list[int]
    count: int


class Starts(msgspec.Struct, frozen=True):
    """The last estimates by job, and scores by virtual cluster name (empty name: all); ``endless``: what keeps jobs
    from having an estimate."""

    made_ms: int
    ranges: dict[int, StartRange]
    scores: dict[str, Score]
    endless: dict[int, Endless] = {}


Made = TypeVar("Made")


def queue_keep(waits: Iterable[tuple[int, int | None]], *, reserved: Collection[int] = ()) -> None:
    """Stores the plan's order, job and place, and the jobs it keeps GPUs for. No effect while Redis is away."""
    listed = list(waits)
    order = Queue([job for job, _ in listed], [place or 0 for _, place in listed], [*reserved])
    _keep(QUEUE_KEY, order, QUEUE_KEPT_S)


def queue_reorder(jobs: Sequence[int]) -> None:
    """Reorders these moved jobs until the next plan, within the slots that they held together; those whose slot changed
    have no place meanwhile."""
    plan = plan_read()
    places = plan.places
    moved = {*jobs} & places.keys()
    order = iter([job for job in jobs if job in moved])
    now = [next(order) if job in moved else job for job in places]
    waits = ((job, places[job] if job == was else None) for job, was in zip(now, places, strict=True))
    queue_keep(waits, reserved=plan.reserved)


Places = Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """``places`` of waiting jobs, in the plan's order; ``reserved``: jobs for which it keeps GPUs free. ``orders``:
    what was sorted by it, by version of the set of jobs: sorting ten thousand ids takes longer than comparing them."""

    places: Places
    reserved: frozenset[int]
    orders: dict[str | None, list[int]] = field(default_factory=dict, compare=False, repr=False)


def plan_read() -> Plan:
    """The last plan; empty if none can be read."""
    return _read(QUEUE_KEY, _plan) or Plan({}, frozenset())


def queue_read() -> Places:
    """Waiting jobs and their places, in the last plan's order; empty if none can be read."""
    return plan_read().places


@lru_cache(maxsize=2)
def _plan(kept: bytes) -> Plan:
    """Cached: a plan lasts a second, and many read it."""
    queue = unpacked(kept, Queue)
    places = {job: place or None for job, place in zip(queue.jobs, queue.places, strict=True)}
    return Plan(places, frozenset(queue.reserved))


def starts_keep(starts: Starts) -> None:
    """Stores the estimates. No effect while Redis is away."""
    _keep(STARTS_KEY, starts, STARTS_KEPT_S)


def starts_read() -> Starts:
    """The last estimates; empty if none can be read."""
    return _read(STARTS_KEY, _starts) or Starts(0, {}, {})


@lru_cache(maxsize=2)
def _starts(kept: bytes) -> Starts:
    return unpacked(kept, Starts)


def _keep(key: str, kept: Queue | Starts, seconds: int) -> None:
    try:
        redis_once().set(key, msgspec.msgpack.encode(kept), ex=seconds)
    except RedisError as error:
        log.warning("%s not kept, the next one will be: %s", key, error)


def _read(key: str, make: Callable[[bytes], Made]) -> Made | None:
    try:
        found = redis_once().get(key)
        return make(found) if isinstance(found, bytes) else None
    except (RedisError, msgspec.MsgspecError) as error:
        log.warning("%s not read: %s", key, error)
        return None

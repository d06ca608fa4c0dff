"""Moves logs from Redis to files: each step takes what the stream has, stores it as a segment, and records how far it
got."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import F, Q, QuerySet
from prometheus_client import Counter
from redis import ConnectionError as RedisConnectionError
from redis import Redis
from redis import TimeoutError as RedisTimeoutError

from nodes.protocol.states import Phase
from portal.hardware.states import NodeHealth
from portal.jobs.models import TaskAttempt
from portal.logs.archive_store import Archive
from portal.logs.ending import log_lost_with
from portal.logs.records import Run
from portal.logs.stream import ForgedEntry, LogOf, read_stream, stream_end, streams_client
from portal.node_orders.services.reports import attempt_log_done

SEGMENT = 1 << 20
"""Largest segment in bytes."""
WORTHWHILE = 256 * 1024
"""Unarchived bytes that are worth a segment of their own."""
EVERY_S = 300
"""Seconds between segments of a log with less than that."""
SWEEP_S = 2
"""Seconds between two sweeps."""
LOCK_S = 30
GAP_S = 60
STILL_S = 30
"""How long a log may stand still, though its node announced more, before the node is asked for it: the next part of a
long log is only sent once the last was taken."""
STILL_KEPT_S = 3 * EVERY_S
DONE_KEEPS_S = 3600
"""How long the stream of a completely archived log stays in Redis."""

AWAY = (RedisConnectionError, RedisTimeoutError, OperationalError, InterfaceError)

ARCHIVED = Counter("berth_log_archived_bytes_total", "Bytes of logs that were put into the archive")
FORGED = Counter("berth_log_forged_entries_total", "Stream entries that the log's node has not signed")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Archiver:
    """Archives logs step by step. ``archive`` is shared by all processes; ``redis`` holds the streams."""

    archive: Archive
    redis: Redis

    def step(self, attempt_id: UUID | str) -> bool:
        """Archives one segment of one log; True if there is more to take at once.

        Any number of processes may call it: a lock avoids double work, and a conditional update of ``archived_to`` from
        the value read decides. Raises redis.RedisError and OSError; neither loses anything.
        """
        row = TaskAttempt.objects.select_related("node").filter(pk=attempt_id).first()
        if row is None:
            return False
        with self._lock(f"berth:portal:archiver:{row.pk}") as mine:
            return mine and self._step(row)

    def step_alone(self, attempt_id: UUID | str) -> bool:
        """Calls ``step``, but logs errors that concern one log only, so that it holds up no other. Raises what all
        would meet: Redis or the database is down."""
        try:
            return self.step(attempt_id)
        except AWAY:
            raise
        except Exception as error:  # the disk, or whatever the node wrote into Redis
            log.error("log of %s cannot be archived: %r", attempt_id, error)
            return False

    def _step(self, row: TaskAttempt) -> bool:
        row.refresh_from_db(fields=["archived_to", "log_complete", "log_end", "lost_at", "state"])
        attempt, start = str(row.pk), row.archived_to
        source = log_of(row)
        begin, end = start, self.archive.segment_end(attempt, start)  # written by one that was then killed
        if end is None:
            run = self._take(source, start)
            begin, end = run.start, self.archive.write(attempt, run) if run.data else start
        if end > start:
            if not archived_to_move(row=row, old=start, new=end, begin=begin):
                return True
            ARCHIVED.inc(end - begin)
        self.redis.xtrim(source.key, minid=f"{end}-1", approximate=False)
        if row.log_complete and end >= row.log_end:
            attempt_log_done(row=row)
            self._close(row, source)
            return False
        waiting = (stream_end(self.redis, source) or end) - end
        if waiting <= 0 and log_lost_with(row):
            self._close(row, source)
        elif waiting <= 0 and end < row.log_end:
            self._ask_again(row, source, end)
        return end > start and waiting >= (1 if row.log_complete else WORTHWHILE)

    def _close(self, row: TaskAttempt, source: LogOf) -> None:
        """Expires the stream: the log is complete, or its rest is lost with the node. A node that comes back refills
        the stream, and a live one reports the container's removal; a removed node does neither."""
        self.redis.expire(source.key, DONE_KEEPS_S)
        if row.over and row.node.removed_at is not None:
            TaskAttempt.objects.filter(pk=row.pk, removed_at__isnull=True).update(removed_at=row.node.removed_at)

    def _take(self, source: LogOf, start: int) -> Run:
        """Reads the stream beyond ``start``. A stream with a forged entry or a gap is deleted, so that its node refills
        it; a gap that recurs is accepted."""
        try:
            run = read_stream(self.redis, source, start, SEGMENT)
        except ForgedEntry as error:
            FORGED.inc()
            log.error("dropped: %s", error)
            self.redis.delete(source.key)
            return Run(start, b"")
        if run.start <= start or not self.redis.set(f"berth:portal:gap:{source.attempt}", start, nx=True, ex=GAP_S):
            return run
        log.warning("log of %s has nothing from %s to %s: asking its node again", source.attempt, start, run.start)
        self.redis.delete(source.key)
        return Run(start, b"")

    def _ask_again(self, row: TaskAttempt, source: LogOf, end: int) -> None:
        """Makes the node resend announced bytes that are neither archived nor in the stream, and stay away: the archive
        was restored to an earlier end, or the node's server lost its newest lines. A deleted stream is refilled from
        ``end``, and the node reports the log's end again."""
        key, here = f"berth:portal:still:{source.attempt}", str(end).encode()
        if self.redis.get(key) == here:
            if int(self.redis.ttl(key)) > STILL_KEPT_S - STILL_S:
                return
            log_end_forget(row=row, known=end)
            self.redis.delete(source.key)
        self.redis.set(key, here, ex=STILL_KEPT_S)

    @contextmanager
    def _lock(self, name: str) -> Iterator[bool]:
        """Yields True if nobody else works on this; expires after ``LOCK_S`` seconds, should the holder be killed."""
        token = uuid4().hex
        mine = bool(self.redis.set(name, token, nx=True, ex=LOCK_S))
        try:
            yield mine
        finally:
            if mine and self.redis.get(name) == token.encode():
                self.redis.delete(name)


def archiver() -> Archiver:
    """The archiver configured by the portal's settings."""
    return Archiver(Archive(settings.LOG_DIR), streams_client())


def log_of(row: TaskAttempt) -> LogOf:
    """Identifies the attempt's log; needs the node loaded."""
    return LogOf(attempt=str(row.pk), node=row.node.name, public_key=row.node.public_key)


def archived_to_move(*, row: TaskAttempt, old: int, new: int, begin: int) -> bool:
    """Records that everything before ``new`` is archived, by a segment that begins at ``begin``. What lies between
    ``old`` and that is a gap; if it begins before ``old``, so much is stored twice. False if somebody was first."""
    mine = TaskAttempt.objects.filter(pk=row.pk, archived_to=old)
    return bool(mine.update(archived_to=new, archive_gaps=F("archive_gaps") + (begin - old)))


def log_end_forget(*, row: TaskAttempt, known: int) -> None:
    """Reopens a complete log of which less exists than was announced: it ends where it is archived, until its node's
    next report. After a power or disk failure that may be less than it announced before."""
    whole = TaskAttempt.objects.filter(pk=row.pk, log_complete=True, archived_to=known)
    whole.exclude(phase=Phase.REMOVE).update(log_end=known, log_complete=False)


def logs_due(*, tick: int, every: int) -> QuerySet[TaskAttempt]:
    """Logs worth a step: complete, or with enough to archive, or whose turn comes at this ``tick`` of ``every``. Of a
    lost node only the latter: nothing more comes, and Redis is soon emptied. A completely archived log waits for its
    node to report the container's removal, unless the node was removed."""
    open_logs = TaskAttempt.objects.filter(removed_at__isnull=True).exclude(
        log_complete=True, archived_to__gte=F("log_end"), node__removed_at__isnull=True
    )
    due = Q(log_complete=True) | Q(log_end__gte=F("archived_to") + WORTHWHILE)
    due &= ~Q(node__health=NodeHealth.LOST)
    turn = [pk for pk in open_logs.values_list("pk", flat=True) if pk.int % every == tick % every]
    return open_logs.filter(due | Q(pk__in=turn))


def archive_sweep(*, now: datetime) -> int:
    """Archives every log that is due, step by step while there is more at once; returns how many were due.

    A log whose step fails waits for the next sweep and holds up no other.
    """
    one = archiver()
    due = list(logs_due(tick=int(now.timestamp()) // SWEEP_S, every=EVERY_S // SWEEP_S).values_list("pk", flat=True))
    for pk in due:
        while one.step_alone(pk):
            continue
    return len(due)

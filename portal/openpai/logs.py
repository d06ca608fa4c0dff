"""Addresses of logs that a program or browser opens without a token of its own, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from django.core import signing
from django.utils import timezone

from nodes.protocol.logs import MARK, STDERR, STDOUT
from portal.accounts.models import Token, User
from portal.accounts.selectors import token_get_valid
from portal.common.errors import NotFound
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.visible import task_attempt_visible
from portal.logs.archiver import log_of
from portal.logs.reader import LogReader
from portal.logs.stream import LogOf
from portal.openpai.errors import BAD_TOKEN, PaiError, no_task_log

STREAMS: dict[str, frozenset[int]] = {
    "stdout": frozenset({STDOUT}),
    "stderr": frozenset({STDERR}),
    "all": frozenset({STDOUT, STDERR, MARK}),
}
TAIL = 16 * 1024
TAIL_WITHIN = 4 * 1024 * 1024
HOLDS_S = 3600
_SALT = "openpai.log"


@dataclass(frozen=True, slots=True)
class LogAddress:
    """Where one stream of a log is to be had."""

    name: str
    path: str


def log_addresses(*, row: TaskAttempt, token: Token, tail: bool) -> list[LogAddress]:
    """The addresses of the log's streams for whoever asks by this token, good for an hour and no longer than it. Needs
    node, task, job and its user loaded."""
    told = {
        "username": row.task.job.user.username,
        "pod-uid": str(row.pk),
        "taskrole": row.task.role.name,
        "token": signing.dumps([token.pk, str(row.pk)], salt=_SALT, compress=True),
        **({"tail-mode": "true"} if tail else {}),
    }
    return [
        LogAddress(name, f"/rest-server/api/v2/log-manager/{row.node.name}/logs/user.pai.{name}?{urlencode(told)}")
        for name in STREAMS
    ]


@dataclass(frozen=True, slots=True)
class LogDoor:
    """What an address opens: ``attempt``'s log, by the API's ``token`` with which it was asked for."""

    token: int
    attempt: str

    def opened(self) -> tuple[User, TaskAttempt]:
        """Who reads, and which log, where both the token and the right to the log still hold. Raises
        UnauthorizedUserError, NoTaskLogError."""
        token = token_get_valid(token_id=self.token, now=timezone.now())
        if token is None:
            raise PaiError(401, "UnauthorizedUserError", BAD_TOKEN)
        try:
            return token.user, task_attempt_visible(token.user, self.attempt)
        except NotFound as error:
            raise no_task_log() from error

    def still(self) -> bool:
        """Whether it opens anything still."""
        try:
            self.opened()
        except PaiError:
            return False
        return True


def log_door(*, signed: str) -> LogDoor:
    """What an address made by ``log_addresses`` opens, within an hour. Raises UnauthorizedUserError."""
    try:
        return LogDoor(*signing.loads(signed, salt=_SALT, max_age=HOLDS_S))
    except signing.BadSignature as error:
        raise PaiError(401, "UnauthorizedUserError", BAD_TOKEN) from error


def log_text(*, reader: LogReader, row: TaskAttempt, streams: frozenset[int], tail: bool) -> Iterator[bytes]:
    """What the task wrote to these streams, in chunks; with ``tail`` the last 16 KB of it. Raises RedisError at once
    when the newest part cannot be reached."""
    log = log_of(row)
    end = reader.end(log)
    return iter([_tail(reader, log, streams, end)]) if tail else _chunks(reader, log, streams, 0, end)


def _tail(reader: LogReader, log: LogOf, streams: frozenset[int], end: int) -> bytes:
    """Looked for from the end on, further back where the other stream wrote most of it, up to ``TAIL_WITHIN``."""
    size = TAIL
    while True:
        start = reader.tail(log, size)
        text = b"".join(_chunks(reader, log, streams, start, end))
        if len(text) >= TAIL or start == 0 or size >= TAIL_WITHIN:
            return text[-TAIL:]
        size *= 4


def _chunks(reader: LogReader, log: LogOf, streams: frozenset[int], offset: int, end: int) -> Iterator[bytes]:
    for rows in reader.pieces(log, offset, end):
        yield b"".join(payload for _, stream, payload in rows if stream in streams)

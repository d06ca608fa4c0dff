"""The files of a job folder, through the agent of a node that has its storage: the portal mounts none itself."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings
from django.utils.translation import gettext, gettext_noop
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes.protocol.messages import Mount, decode
from nodes.protocol.sessions import (
    DeleteRequest,
    FolderListing,
    Frame,
    FrameKind,
    ListRequest,
    ProofRequest,
    ReadRequest,
    SessionAnswer,
    SessionBroken,
    SessionEnd,
    SessionFault,
)
from portal.common.errors import Absent, Conflict, Refused, Unavailable
from portal.common.shares import Share
from portal.hardware.models import Node
from portal.node_sessions.calling import (
    ANSWER_WITHIN_S,
    BLOCK_MS,
    FRAMES_AT_ONCE,
    SILENCE_S,
    Called,
    SessionFailed,
    failure_of,
    session_call,
    size_of,
)

log = logging.getLogger(__name__)

PATIENCE_S = 120
"""So long a node waits for a reader that takes nothing, such as a slow browser."""
LARGEST_LISTING = 4 << 20
TRIES = 3
"""Nodes that are asked, one after another."""
WITHIN_S = 20.0
"""So long a request waits for nodes at most, all of them together: what it does not have then it goes without."""
WAITING = Share(
    each=lambda: 6,
    overall=24,
    lasts_s=lambda: 120,
    own=gettext_noop("You are waiting for servers with %(most)s requests already. Wait for one of their answers."),
    full=gettext_noop("Too many requests are waiting for servers now. Try again in a while."),
)
"""Of the threads that answer requests: a node that hangs must not have all of them."""
_FINAL: dict[SessionFault, type[Refused]] = {SessionFault.MISSING: Absent, SessionFault.UNFIT: Conflict}


Asked = ListRequest | ReadRequest | DeleteRequest | ProofRequest


class FolderSession:
    """One request about files, answered by one node. Open it, read its pieces, and close it. ``until``: when it is
    given up (of ``time.monotonic``)."""

    def __init__(
        self, node: Node, asked: ListRequest | ReadRequest | DeleteRequest | ProofRequest, until: float = math.inf
    ) -> None:
        self.node, self.until = node, until
        self._call = _call(node, asked)
        self._redis = Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=1, retry=Retry(NoBackoff(), 1)
        )
        self._last: Any = b"0-0"
        self._frames = self._read()

    def open(self) -> SessionAnswer:
        """What is there. Raises SessionFailed."""
        try:
            pipe = self._redis.pipeline(transaction=False)
            self._call.ask(pipe)
            pipe.execute()
            for frame in self._frames:
                if frame.kind is FrameKind.ANSWER:
                    return decode(frame.payload, SessionAnswer)
                self._end(frame)
        except (RedisError, msgspec.MsgspecError, SessionBroken) as error:
            raise SessionFailed(SessionFault.BROKEN, gettext("The lane to the node is broken.")) from error
        raise self._call.gone()

    def pieces(self) -> Iterator[bytes]:
        """The bytes, as they come. Raises SessionFailed, also in the middle."""
        try:
            for frame in self._frames:
                if frame.kind is FrameKind.DATA:
                    yield frame.payload
                elif self._end(frame):
                    return
        except (RedisError, msgspec.MsgspecError, SessionBroken) as error:
            raise SessionFailed(SessionFault.BROKEN, gettext("The lane to the node is broken.")) from error
        raise self._call.gone()

    def listing(self) -> FolderListing:
        """All of them, as one list. Raises SessionFailed."""
        data = b""
        with self:
            for piece in self.pieces():
                data += piece
                if len(data) > LARGEST_LISTING:
                    break
        try:
            return decode(data, FolderListing)
        except msgspec.MsgspecError as error:
            raise SessionFailed(SessionFault.BROKEN, gettext("The node's list cannot be read.")) from error

    def __enter__(self) -> FolderSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go: the node ends what it still sends."""
        try:
            pipe = self._redis.pipeline(transaction=False)
            self._call.add(pipe, self._call.side.seal(FrameKind.END))
            pipe.delete(self._call.up)
            pipe.execute()
        except RedisError as error:
            log.info("a session's end was not told to %s, which ends it by itself: %r", self.node.name, error)
        finally:
            self._redis.close()

    def _end(self, frame: Frame) -> bool:
        """Whether this was the end. Raises SessionFailed for a bad one."""
        if frame.kind is not FrameKind.END:
            return False
        failed = failure_of(decode(frame.payload, SessionEnd))
        if failed is not None:
            raise failed
        return True

    def _read(self) -> Iterator[Frame]:
        """Every frame, until the node is silent for too long. What was read is taken once the reader comes back."""
        call, heard, patience = self._call, time.monotonic(), ANSWER_WITHIN_S
        while time.monotonic() < min(heard + patience, self.until):
            answer: Any = self._redis.xread({call.up: self._last}, count=FRAMES_AT_ONCE, block=BLOCK_MS)
            for entry_id, fields in answer[0][1] if answer else ():
                self._last = entry_id
                frame = call.side.open(entry_id, fields.get(b"frame", b""))
                yield frame
                self._take(frame)
            if answer:
                heard, patience = time.monotonic(), SILENCE_S

    def _take(self, frame: Frame) -> None:
        size = size_of(frame)
        if size:
            pipe = self._redis.pipeline(transaction=False)
            self._call.add(pipe, self._call.side.take(size))
            pipe.xtrim(self._call.up, minid=self._last, approximate=False)
            pipe.execute()


@dataclass(frozen=True, slots=True)
class Answered:
    """A session that a node has begun, and what it says is there."""

    session: FolderSession
    there: SessionAnswer


def _call(node: Node, asked: Asked) -> Called:
    if isinstance(asked, ProofRequest):
        return session_call(node=node, silence_s=PATIENCE_S, proving=asked)
    if isinstance(asked, DeleteRequest):
        return session_call(node=node, silence_s=PATIENCE_S, deleting=asked)
    if isinstance(asked, ListRequest):
        return session_call(node=node, silence_s=PATIENCE_S, listing=asked)
    return session_call(node=node, silence_s=PATIENCE_S, reading=asked)


def folder_ask(folder: JobFolder, asked: Callable[[Mount], ListRequest | ReadRequest]) -> Answered:
    """What the first node that answers says. Whoever calls it has a seat of ``WAITING`` while they wait. Raises Absent,
    Conflict, Unavailable."""
    failed: SessionFailed | None = None
    until = time.monotonic() + WITHIN_S
    for node in folder.nodes[:TRIES]:
        session = FolderSession(node, asked(folder.mount), until)
        try:
            return Answered(session, session.open())
        except SessionFailed as error:
            session.close()
            failed = error
            if error.fault in _FINAL:
                break
    assert failed is not None, "a folder has nodes"
    raise _FINAL.get(failed.fault, Unavailable)(failed.message)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """``mount`` names it as a node knows it; of the ``nodes`` that have its storage the job's own stand first."""

    mount: Mount
    nodes: list[Node]

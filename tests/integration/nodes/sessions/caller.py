"""The portal's end of sessions with an agent, over a real Redis, without a portal."""

from __future__ import annotations

import time
import uuid
from typing import Any

from redis import Redis

from nodes.protocol.envelope import Envelope, envelope_seal
from nodes.protocol.messages import decode, encode
from nodes.protocol.names import session_requests, session_streams
from nodes.protocol.sessions import (
    Frame,
    FrameKind,
    SessionAnswer,
    SessionEnd,
    SessionRequest,
    SessionSide,
    ShellRequest,
    secret_make,
    size_encode,
)
from tests.support.cluster.portal_side import PortalSide


class Caller:
    """One session. ``output`` and ``errors`` are what was read so far, in ``frames`` frames; ``taken`` is what the node
    took of the input."""

    def __init__(self, portal: PortalSide, redis: Redis, **what: Any) -> None:
        self.portal, self.redis = portal, redis
        self.secret, sealed = secret_make(portal.node_key.public)
        self.request = SessionRequest(
            session=str(uuid.uuid4()), boot=portal.reports[-1].boot, secret=sealed, silence_s=15, **what
        )
        self.side = SessionSide(self.secret, node=False)
        self.down, self.up = session_streams(portal.name, self.request.session)
        self.answer: SessionAnswer | None = None
        self.end: SessionEnd | None = None
        self.output, self.errors = b"", b""
        self.frames = 0
        self._last: Any = b"0-0"

    @property
    def taken(self) -> int:
        return self.side.acknowledged

    def envelope(self, *, to: str | None = None, lives_s: float = 10.0, key: Any = None, kind: str = "session") -> str:
        expires = int((time.time() + lives_s) * 1000)
        body = encode(self.request).decode()
        return envelope_seal(key or self.portal.key, Envelope("portal", to or self.portal.name, kind, expires, body))

    def call(self, text: str | None = None) -> Caller:
        self.redis.xadd(session_requests(self.portal.name), {"request": text or self.envelope()})
        return self

    def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        entry, sealed = self.side.seal(kind, payload)
        self.redis.xadd(self.down, {"frame": sealed}, id=entry)

    def type(self, text: str) -> None:
        self.send(FrameKind.DATA, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        self.send(FrameKind.RESIZE, size_encode(rows, columns))

    def take(self, *, wait_s: float = 0.2, acknowledge: bool = True) -> list[Frame]:
        """The frames that are there, or come soon."""
        answer: Any = self.redis.xread({self.up: self._last}, block=int(wait_s * 1000))
        frames = []
        for entry, fields in answer[0][1] if answer else ():
            self._last = entry
            frames.append(self.side.open(entry, fields[b"frame"]))
        self.frames += len(frames)
        read = sum(self._note(frame) for frame in frames)
        if read and acknowledge:
            entry_id, sealed = self.side.take(read)
            self.redis.xadd(self.down, {"frame": sealed}, id=entry_id)
        return frames

    def _note(self, frame: Frame) -> int:
        if frame.kind is FrameKind.ANSWER:
            self.answer = decode(frame.payload, SessionAnswer)
        elif frame.kind is FrameKind.END:
            self.end = decode(frame.payload, SessionEnd)
        elif frame.kind is FrameKind.DATA:
            self.output += frame.payload
            return len(frame.payload)
        elif frame.kind is FrameKind.ERRORS:
            self.errors += frame.payload
            return len(frame.payload)
        return 0

    def until(self, text: str, deadline_s: float = 20) -> None:
        """Reads until the output has it."""
        self._until(lambda: text.encode() in self.output, f"{text!r}", deadline_s)

    def ended(self, deadline_s: float = 20) -> SessionEnd:
        """Reads to the end."""
        self._until(lambda: self.end is not None, "the end", deadline_s)
        assert self.end is not None
        return self.end

    def _until(self, done: Any, what: str, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while not done():
            assert time.monotonic() < deadline, (
                f"no {what} within {deadline_s} s: {self.output[-2000:]!r} {self.errors!r} {self.end}\n"
                f"{self.portal.agent.tail()[-3000:]}"
            )
            assert self.end is None or done(), f"no {what}, but {self.end}, {self.output[-500:]!r}"
            self.take()


def shell(portal: PortalSide, redis: Redis, attempt: str, *command: str, **changes: Any) -> Caller:
    """A program beside a task: asked for, not awaited."""
    return Caller(portal, redis, shell=ShellRequest(attempt=attempt, command=command, **changes)).call()

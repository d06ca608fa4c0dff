"""Channel of one session, at the node's end: frames out to its Redis stream, frames in from the session server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import redis

from nodes.agent.clock import Clock
from nodes.protocol.messages import encode
from nodes.protocol.names import session_streams
from nodes.protocol.sessions import (
    CHUNK,
    STREAM_TTL_S,
    Frame,
    FrameKind,
    SessionAnswer,
    SessionBroken,
    SessionEnd,
    SessionFault,
    SessionSide,
)

ALIVE_EVERY_S = 2.0
LOOK_UP_S = 1.0
TRIM_EVERY = 32
"""Frames read before they are trimmed from their stream."""


class ChannelClosed(Exception):
    """The session is over: the other side ended it, or is gone."""


@dataclass(frozen=True, slots=True)
class Resized:
    """A new size of the portal's terminal."""

    rows: int
    columns: int


Input = bytes | Resized | None
"""Input from the portal: bytes, a size, or None where no more bytes come."""


class SessionChannel:
    """One session's frames. ``give`` and ``tick`` are for the session server; everything else for the threads that
    serve the session. ``closed`` is called once, from whichever thread ends it; it must not wait."""

    def __init__(
        self, client: redis.Redis, *, node: str, session: str, secret: bytes, silence_s: float, clock: Clock
    ) -> None:
        self.session = session
        self.down, self._up = session_streams(node, session)
        self.last = b"0-0"
        self.closed: Callable[[], None] = lambda: None
        self._client, self._clock, self._silence_s = client, clock, silence_s
        self._side = SessionSide(secret, node=True)
        self._lock = threading.Lock()
        self._room = threading.Condition()
        self._over = threading.Event()
        self._input: queue.SimpleQueue[Input] = queue.SimpleQueue()
        self._finished = False
        self._size: Resized | None = None
        self._sizing = threading.Lock()
        self._received_at = self._sent_at = clock.monotonic()
        self._untrimmed = 0

    @property
    def over(self) -> bool:
        return self._over.is_set()

    # ------------------------------------------------------------ for whoever serves it

    def answer(self, answer: SessionAnswer) -> None:
        """Sends the first frame. Raises ChannelClosed."""
        self._send(FrameKind.ANSWER, encode(answer))

    def send(self, kind: FrameKind, data: bytes) -> None:
        """Sends bytes, as fast as the other side takes them. Raises ChannelClosed."""
        for start in range(0, len(data), CHUNK):
            piece = data[start : start + CHUNK]
            with self._room:
                while self._side.room < len(piece) and not self.over:
                    self._room.wait(LOOK_UP_S)
            self._send(kind, piece)

    def input(self) -> Input:
        """The next input from the portal; waits. Raises ChannelClosed."""
        taken = self._input.get()
        if self.over:
            raise ChannelClosed
        if isinstance(taken, Resized):
            with self._sizing:
                taken, self._size = self._size, None
        return taken

    def took(self, size: int) -> None:
        """Acknowledges bytes of the input: the portal may send as many more. Raises ChannelClosed."""
        with self._lock:
            self._send_unless_over(lambda: self._side.take(size))

    def end(self, end: SessionEnd) -> None:
        """Sends the last frame; does nothing where the session is over."""
        try:
            self._send(FrameKind.END, encode(end))
        except ChannelClosed:
            return
        self.close()

    def close(self) -> None:
        """Ends the session without a frame."""
        if not self.over:
            self._over.set()
            self._input.put(None)  # wakes who waits for it
            with self._room:
                self._room.notify_all()
            self.closed()

    # ------------------------------------------------------------ for the door

    def give(self, entry_id: bytes, fields: dict[bytes, bytes]) -> None:
        """Takes a frame of the portal's. Never waits for more than Redis."""
        self.last, self._received_at = entry_id, self._clock.monotonic()
        try:
            self._take(self._side.open(entry_id, fields.get(b"frame", b"")))
        except SessionBroken as broken:
            self.end(SessionEnd(fault=SessionFault.BROKEN, message=f"The session broke: {broken}."))
        self._untrimmed += 1
        if self._untrimmed >= TRIM_EVERY:
            self._untrimmed = 0
            self._client.xtrim(self.down, minid=entry_id, approximate=False)

    def tick(self) -> None:
        """Sends a sign of life, and ends where the portal sends none. Raises RedisError."""
        now = self._clock.monotonic()
        if now - self._received_at > self._silence_s:
            self.end(SessionEnd(fault=SessionFault.BROKEN, message="The portal was silent for too long."))
        elif now - self._sent_at >= ALIVE_EVERY_S:
            self._send(FrameKind.ALIVE, b"")

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.DATA:
            self._input.put(frame.payload)
        elif frame.kind is FrameKind.FINISH and not self._finished:
            self._finished = True
            self._input.put(None)
        elif frame.kind is FrameKind.RESIZE:
            self._resize(Resized(*frame.size))
        elif frame.kind is FrameKind.TAKEN:
            with self._room:
                self._room.notify_all()
        elif frame.kind is FrameKind.END:
            self.close()
            with self._lock:
                self._client.delete(self._up)

    def _resize(self, size: Resized) -> None:
        """Keeps only the last of untaken sizes, so that no flood of them fills the memory."""
        with self._sizing:
            waits, self._size = self._size is not None, size
        if not waits:
            self._input.put(size)

    def _send(self, kind: FrameKind, payload: bytes) -> None:
        with self._lock:
            self._send_unless_over(lambda: self._side.seal(kind, payload))

    def _send_unless_over(self, frame: Callable[[], tuple[str, bytes]]) -> None:
        """Adds a frame; with the lock held, so that frames are in the order of their numbers."""
        if self.over:
            raise ChannelClosed
        entry_id, sealed = frame()
        pipe = self._client.pipeline(transaction=False)
        pipe.xadd(self._up, {"frame": sealed}, id=entry_id)
        pipe.expire(self._up, STREAM_TTL_S)
        try:
            pipe.execute()
        except redis.RedisError as error:
            self.close()
            raise ChannelClosed from error
        self._sent_at = self._clock.monotonic()

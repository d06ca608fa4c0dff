"""A program in a running task, over its websocket. A lost connection ends it: no input is ever sent twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypedDict
from urllib.parse import quote

import msgspec
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.sync.client import ClientConnection, connect

from berth.calls import unreachable
from berth.decoding import decoded
from berth.errors import BadAnswer, BerthError, ShellLost
from berth.server import Server
from berth.sockets import LOST, Closable, final_error

PIECE = 32 * 1024
START_PATIENCE_S = 30.0


class _Message(msgspec.Struct):
    """One message: ``started`` with its ``window``; ``taken`` with the ``bytes`` so far; ``end`` with ``code`` and
    ``message``."""

    type: str
    window: int = 0
    bytes: int = 0
    code: int | None = None
    message: str = ""


class Terminal(TypedDict, total=False):
    """Terminal of a program."""

    tty: bool
    rows: int
    columns: int
    term: str


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """Options of a program. ``command`` empty: the task's best shell. ``tty``: on a terminal of this size and type;
    else on three pipes."""

    task_attempt: str
    command: Sequence[str] = ()
    tty: bool = False
    rows: int = 24
    columns: int = 80
    term: str = "xterm"

    def start(self) -> str:
        """The first message."""
        options = {"command": [*self.command], "tty": self.tty, "rows": self.rows, "columns": self.columns}
        return _text("start", **options, term=self.term)


class _ShellState:
    """State of a program, for both clients: how much input it takes, and how it ended. Sends and reads nothing
    itself."""

    def __init__(self, server: Server, options: ShellOptions) -> None:
        self.server, self.options = server, options
        self.exit_code: int | None = None
        self.ended = self.left = False
        self._sent = self._taken = self._window = 0

    @property
    def address(self) -> str:
        return self.server.socket_url(f"/ws/exec/{quote(self.options.task_attempt, safe='')}")

    @property
    def room(self) -> int:
        return self._window - (self._sent - self._taken)

    @property
    def over(self) -> bool:
        """Whether input no longer reaches the program."""
        return self.ended or self.left

    def typed(self, size: int) -> None:
        self._sent += size

    def started(self, message: str | bytes) -> None:
        """Takes the first answer. Raises ShellLost, BadAnswer."""
        if self.take(message) is not None or not self._window:
            raise BadAnswer("the shell's websocket began with something else than a beginning")

    def take(self, message: str | bytes) -> tuple[int, bytes] | None:
        """The output, if the message has some. Raises ShellLost, BadAnswer."""
        if isinstance(message, bytes):
            if message[:1] not in (b"\x01", b"\x02"):
                raise BadAnswer("the shell's websocket said something else than output")
            return message[0], message[1:]
        try:
            answer = decoded(message, _Message)
        except msgspec.DecodeError as error:
            raise BadAnswer(f"the shell's websocket said something that cannot be read: {error}") from error
        self._window = answer.window or self._window
        self._taken = max(self._taken, answer.bytes)
        if answer.type == "end":
            self.ended, self.exit_code = True, answer.code
            if answer.code is None:
                raise ShellLost(answer.message or "the shell ended without an exit status")
        return None

    def lost(self, error: Exception) -> BerthError:
        """The error for a lost connection."""
        final = final_error(error, self.server.url, "task")
        return final or unreachable(self.server.url, error)


class Shell:
    """A running program: iterate for its output, as (1 stdout or 2 stderr, bytes), to its end; then `exit_code` is
    there. `write`, `finish` and `resize` may be called by other threads meanwhile. Leaving its ``with`` ends it."""

    def __init__(self, server: Server, options: ShellOptions) -> None:
        self._state = _ShellState(server, options)
        self._open = ExitStack()
        self._room = threading.Condition()
        self._socket: ClientConnection

    @property
    def exit_code(self) -> int | None:
        """Its exit status, once it has ended; 128 + signal for a killed one."""
        return self._state.exit_code

    def __enter__(self) -> Self:
        state = self._state
        try:
            self._socket = self._open.enter_context(
                connect(state.address, **state.server.socket(), create_connection=Closable)
            )
            self._socket.send(state.options.start())
            state.started(self._socket.recv(START_PATIENCE_S))
        except LOST as error:
            self._open.close()
            raise state.lost(error) from error
        except BerthError:
            self._open.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._state.left = True
        with self._room:
            self._room.notify_all()
        self._open.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        state = self._state
        try:
            while not state.ended:
                written = state.take(self._socket.recv())
                if written is not None:
                    yield written
                else:
                    with self._room:
                        self._room.notify_all()
        except LOST as error:
            raise state.lost(error) from error

    def write(self, data: bytes) -> None:
        """Writes input, as fast as the program takes it; what it never takes is dropped with its end. Raises
        BerthError."""
        for piece in _pieces(data):
            with self._room:
                while self._state.room < len(piece) and not self._state.over:
                    self._room.wait(1.0)
                self._state.typed(len(piece))
            self._send(piece)

    def finish(self) -> None:
        """Ends the input; on a terminal write Ctrl-D instead. Raises BerthError."""
        self._send(_text("finish"))

    def resize(self, rows: int, columns: int) -> None:
        """Sets the terminal's size. Raises BerthError."""
        self._send(_text("resize", rows=rows, columns=columns))

    def _send(self, message: str | bytes) -> None:
        if self._state.over:
            return
        try:
            self._socket.send(message)
        except LOST as error:
            if not self._state.over:
                raise self._state.lost(error) from error


class AsyncShell:
    """The same to be awaited, and iterated by ``async for``."""

    def __init__(self, server: Server, options: ShellOptions) -> None:
        self._state = _ShellState(server, options)
        self._open = AsyncExitStack()
        self._room = asyncio.Condition()
        self._socket: AsyncConnection

    @property
    def exit_code(self) -> int | None:
        """See `Shell.exit_code`."""
        return self._state.exit_code

    async def __aenter__(self) -> Self:
        state = self._state
        try:
            self._socket = await self._open.enter_async_context(connect_async(state.address, **state.server.socket()))
            await self._socket.send(state.options.start())
            state.started(await asyncio.wait_for(self._socket.recv(), START_PATIENCE_S))
        except LOST as error:
            await self._open.aclose()
            raise state.lost(error) from error
        except BerthError:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._state.left = True
        async with self._room:
            self._room.notify_all()
        await self._open.aclose()

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        state = self._state
        try:
            while not state.ended:
                written = state.take(await self._socket.recv())
                if written is not None:
                    yield written
                else:
                    async with self._room:
                        self._room.notify_all()
        except LOST as error:
            raise state.lost(error) from error

    async def write(self, data: bytes) -> None:
        """See `Shell.write`."""
        for piece in _pieces(data):
            async with self._room:
                while self._state.room < len(piece) and not self._state.over:
                    await self._room.wait()
                self._state.typed(len(piece))
            await self._send(piece)

    async def finish(self) -> None:
        """See `Shell.finish`."""
        await self._send(_text("finish"))

    async def resize(self, rows: int, columns: int) -> None:
        """See `Shell.resize`."""
        await self._send(_text("resize", rows=rows, columns=columns))

    async def _send(self, message: str | bytes) -> None:
        if self._state.over:
            return
        try:
            await self._socket.send(message)
        except LOST as error:
            if not self._state.over:
                raise self._state.lost(error) from error


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE] for start in range(0, len(data), PIECE))


def _text(kind: str, **fields: Any) -> str:
    return msgspec.json.encode({"type": kind, **fields}).decode()

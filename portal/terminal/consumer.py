"""``/ws/exec/<task attempt id>``: a program in a running task, such as a shell, on a terminal or on pipes.

From the browser: first ``{"type": "start", "command": […], "tty": true, "rows": 24, "columns": 80, "term": "xterm"}``
(all but ``type`` may be left out; no command is a shell), then binary messages with what is typed,
``{"type": "resize", "rows": 24, "columns": 80}`` and ``{"type": "finish"}`` when nothing more is typed. At most
``window`` bytes may be under way.

To the browser: ``{"type": "started", "window": 262144}``, binary messages of a first byte (1 output, 2 errors) and
what was written, ``{"type": "taken", "bytes": n}`` as the program takes what was typed (all of it so far), and at the
end ``{"type": "end", "code": 0, "message": ""}``; ``code`` is null where there is no exit status, and ``message``
then says why. Close codes besides: 4403 for who may not, 4409 where the task does not run; the reason says more.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Annotated

import msgspec
from channels.db import database_sync_to_async
from django.utils import timezone
from django.utils.translation import gettext
from redis import RedisError

from nodes.protocol.decoding import decoded
from nodes.protocol.logs import STDERR, STDOUT
from nodes.protocol.messages import decode
from nodes.protocol.sessions import WINDOW, Frame, FrameKind, SessionEnd, ShellRequest
from nodes.protocol.states import ContainerState
from portal.accounts.models import Scope
from portal.accounts.rights import Action
from portal.accounts.websockets import CLOSED_NOT_VISIBLE, SignedInConsumer
from portal.common.errors import Conflict, Denied, NotFound, Refused
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.visible import task_attempt_with_right
from portal.jobs.services.read_audit import shell_open
from portal.node_sessions.calling import SessionFailed
from portal.parking.services.park import job_unpark
from portal.terminal.shell import ShellSession

log = logging.getLogger(__name__)

CLOSED_DENIED, CLOSED_CONFLICT = 4403, 4409
LONGEST_REASON = 120
"""Bytes; a frame that closes a websocket takes 123."""
"""Of ASCII; a close frame holds no more."""
START_WITHIN_S = 10.0

Size = Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)]
Word = Annotated[str, msgspec.Meta(max_length=65536, pattern=r"\A[^\x00]*\Z")]


class Start(msgspec.Struct, tag_field="type", tag="start", forbid_unknown_fields=True):
    """The first message."""

    command: Annotated[list[Word], msgspec.Meta(max_length=1000)] = []
    tty: bool = True
    rows: Size = 24
    columns: Size = 80
    term: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")] = "xterm"


class Resize(msgspec.Struct, tag_field="type", tag="resize", forbid_unknown_fields=True):
    """The terminal has another size."""

    rows: Size
    columns: Size


class Finish(msgspec.Struct, tag_field="type", tag="finish", forbid_unknown_fields=True):
    """Nothing more is typed."""


Told = Start | Resize | Finish


class ShellConsumer(SignedInConsumer):
    """One shell. The address's ``attempt`` names the task attempt."""

    _session: ShellSession | None = None
    _task: asyncio.Task[None] | None = None
    _waiting: asyncio.Task[None] | None = None
    _over = False

    async def opened(self) -> None:
        refused = await self._refused()
        await self.agree()
        if refused is not None:
            await self._refuse(refused)
            return
        self._waiting = asyncio.create_task(self._wait_for_start())

    async def closed(self) -> None:
        self._over = True
        for task in (self._waiting, self._task):
            if task is not None:
                task.cancel()
        if self._session is not None:
            await self._session.close()

    async def rechecked(self) -> None:
        refused = None if self._over else await self._refused()
        if refused is not None:
            await self._refuse(refused)

    async def close(self, code: int | bool | None = None, reason: str | None = None) -> None:
        """Also ends the program: the browser's own goodbye may be long in coming."""
        self._over = True
        if self._session is not None:
            await self._session.close()
        await super().close(code, reason)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Never waits for the program: what it has not taken yet counts against the window."""
        if self._over or self._waiting is None:
            return
        try:
            await (self._type(bytes_data) if bytes_data is not None else self._told(text_data or ""))
        except (msgspec.MsgspecError, RecursionError) as error:
            await self._end(f"A message that cannot be understood: {error}.")
        except RedisError:
            await self._end(gettext("The lane to the node is broken."))

    # ------------------------------------------------------------ from the browser

    async def _told(self, text: str) -> None:
        told: Start | Resize | Finish = decoded(text, Told)  # type: ignore[arg-type]
        if isinstance(told, Start):
            await self._start(told)
        elif self._session is None:
            await self._end('The first message must be {"type": "start"}.')
        elif isinstance(told, Resize):
            await self._session.resize(told.rows, told.columns)
        else:
            await self._session.finish()

    async def _type(self, data: bytes) -> None:
        if self._session is None:
            await self._end('The first message must be {"type": "start"}.')
        elif len(data) > self._session.room:
            await self._end(f"More than {WINDOW} bytes were sent that the program has not taken.")
        else:
            await self._session.type(data)

    async def _wait_for_start(self) -> None:
        await asyncio.sleep(START_WITHIN_S)
        if self._session is None:
            await self._end(f"Nothing was asked for within {START_WITHIN_S:g} seconds.")

    async def _start(self, told: Start) -> None:
        if self._session is not None:
            await self._end("It has begun already.")
            return
        request = ShellRequest(
            attempt=self._attempt, command=tuple(told.command), tty=told.tty, rows=told.rows, columns=told.columns,
            term=told.term,
        )  # fmt: skip
        try:
            row = await self._noted(request)
        except Refused as refused:
            await self._end(refused.detail)
            return
        self._session = ShellSession(row.node, request)
        self._task = asyncio.create_task(self._run(self._session))

    # ------------------------------------------------------------ to the browser

    async def _run(self, session: ShellSession) -> None:
        acknowledged = 0
        try:
            async for frame in session.frames():
                await self._pass_on(frame)
                if session.acknowledged != acknowledged:
                    acknowledged = session.acknowledged
                    await self._say({"type": "taken", "bytes": acknowledged})
        except SessionFailed as failed:
            await self._end(failed.message)
        except Exception:
            log.exception("the shell in task attempt %s failed", self._attempt)
            await self._end(gettext("The portal made a mistake; an administrator finds it in the portal's log."))

    async def _pass_on(self, frame: Frame) -> None:
        if frame.kind is FrameKind.ANSWER:
            await self._say({"type": "started", "window": WINDOW})
        elif frame.kind in (FrameKind.DATA, FrameKind.ERRORS):
            stream = STDERR if frame.kind is FrameKind.ERRORS else STDOUT
            await self.send(bytes_data=bytes((stream,)) + frame.payload)
        elif frame.kind is FrameKind.END:
            code = decode(frame.payload, SessionEnd).code
            await self._end("" if code is not None else gettext("The task ended."), code)

    async def _say(self, message: dict[str, object]) -> None:
        await self.send(json.dumps(message))

    async def _end(self, message: str, code: int | None = None) -> None:
        """The last message, once."""
        if not self._over:
            self._over = True
            await self._say({"type": "end", "code": code, "message": message})
            await self.close()

    async def _refuse(self, refused: Refused) -> None:
        codes = {NotFound: CLOSED_NOT_VISIBLE, Denied: CLOSED_DENIED}
        reason = refused.detail.encode()[:LONGEST_REASON].decode(errors="ignore")
        await self.close(codes.get(type(refused), CLOSED_CONFLICT), reason)

    # ------------------------------------------------------------ who may

    @property
    def _attempt(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["attempt"])

    async def _refused(self) -> Refused | None:
        """Why this user may not have a shell there, or not any more."""
        try:
            await database_sync_to_async(self._row)()
        except Refused as refused:
            return refused
        return None

    async def _noted(self, request: ShellRequest) -> TaskAttempt:
        """The task attempt, once the audit log knows of the shell. Raises Refused."""

        def note() -> TaskAttempt:
            row = self._row()
            if job_unpark(job=row.task.job, actor=self.user.username, now=timezone.now()):
                raise Conflict(gettext("The job is off its GPU and was resumed: open the terminal again once it runs."))
            shell_open(user=self.user, attempt=row, command=request.command, now=timezone.now())
            return row

        return await database_sync_to_async(note)()

    def _row(self) -> TaskAttempt:
        """Raises NotFound, Denied, Conflict."""
        row = task_attempt_with_right(user=self.user, attempt_id=self._attempt, action=Action.JOB_SHELL)
        scope = self.credential.scope if self.credential else Scope.READ
        if not scope.covers(Scope.SUBMIT):
            raise Denied(
                gettext("This token has the scope %(scope)s; %(submit)s is needed.")
                % {"scope": scope, "submit": Scope.SUBMIT}
            )
        if row.over or row.state != ContainerState.RUNNING:
            raise Conflict(gettext("The task does not run: it is %(state)s.") % {"state": row.state})
        return row

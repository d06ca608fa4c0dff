"""Follows a job: why it waits, what is being prepared, its tasks' output, how it ends."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.cells import chop_cells
from rich.status import Status

from berth.cli.screen import clean, console, say, show_json_line, span, when
from berth.cli.target import TaskName
from berth.cli.terminal import TerminalFilter, Unfiltered
from berth.client import AsyncClient
from berth.errors import ServerFault, SocketRefused, Unreachable
from berth.logs import END_S, MOST_BYTES, PATIENCE_S
from berth.model.jobs import MARK, JobDetail, LogRecord, Task, TaskAttempt

POLL_S, ASK_S = 1.0, 3.0
TAIL = 64 * 1024
"""Bytes before the end where a log's tail begins, as in the portal."""
MOST_TASKS = 16
LONGEST_LINE = 8192
"""Characters of an unfinished line among those of other tasks after which it is printed as one."""


def screen(*, raw: bool) -> Unfiltered | TerminalFilter:
    """The filter for a log on standard output: on a terminal it removes control sequences."""
    return Unfiltered() if raw or not sys.stdout.isatty() else TerminalFilter()


class Output(Protocol):
    """Output for the log of one task."""

    def take(self, record: LogRecord) -> None:
        """One record."""

    def tail(self, records: Sequence[LogRecord]) -> None:
        """Takes the current unfinished lines."""

    def end(self) -> None:
        """The log has ended."""


class PlainOutput:
    """One task's log as it is; lines of Berth's own stand on lines of their own."""

    def __init__(self, *, raw: bool) -> None:
        self._screen = screen(raw=raw)
        self._open_line = self._shown = False

    def take(self, record: LogRecord) -> None:
        """Prints it at once."""
        self._take_back()
        text = self._screen.feed(record.text)
        if record.stream == MARK and self._open_line:
            text = "\n" + text
        self._open_line = not text.endswith("\n") if text else self._open_line
        sys.stdout.write(text)
        sys.stdout.flush()

    def tail(self, records: Sequence[LogRecord]) -> None:
        """Shows it until something else comes; on a terminal alone, and in one row, so that it can be erased."""
        if self._open_line or not sys.stdout.isatty():
            return
        self._take_back()
        text = clean(" ".join(record.text.rpartition("\r")[2] for record in records).expandtabs())
        row = next(iter(chop_cells(text, shutil.get_terminal_size().columns - 1)), "")
        self._shown = bool(row)
        sys.stdout.write(row)
        sys.stdout.flush()

    def _take_back(self) -> None:
        if self._shown:
            sys.stdout.write("\r\x1b[K")
        self._shown = False

    def end(self) -> None:
        """Restores the terminal."""
        self._take_back()
        sys.stdout.write(self._screen.end())
        sys.stdout.flush()


class PrefixedOutput:
    """One task's log among others: whole lines behind the task's name; of a line that was overwritten, its end."""

    def __init__(self, name: str, *, raw: bool) -> None:
        self._prefix = f"[{clean(name)}] "
        self._screen = screen(raw=raw)
        self._rest = ""

    def take(self, record: LogRecord) -> None:
        """Prints the lines that are whole."""
        before = "\n" if record.stream == MARK and self._rest else ""
        *lines, rest = (self._rest + before + self._screen.feed(record.text)).split("\n")
        rest = _last_written(rest)
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        self._print(lines)

    def tail(self, records: Sequence[LogRecord]) -> None:
        """Ignored: only whole lines are printed."""

    def end(self) -> None:
        """Prints the last line, though it is unfinished."""
        self._print([self._rest] if self._rest else [])
        self._rest = ""

    def _print(self, lines: Sequence[str]) -> None:
        close = self._screen.plain
        for line in lines:
            sys.stdout.write(f"{self._prefix}{_last_written(line).rstrip(chr(13))}{close}\n")
        sys.stdout.flush()


def _last_written(line: str) -> str:
    """What is left of a line that was overwritten again and again: a progress bar may never come to an end."""
    text = line.rstrip("\r")
    return text.rpartition("\r")[2] + ("\r" if len(text) < len(line) else "")


class JsonOutput:
    """Records as JSON."""

    def __init__(self, task: str) -> None:
        self._task = task

    def take(self, record: LogRecord) -> None:
        """Prints it at once."""
        row = {"task": self._task, "time_ms": record.time_ms, "stream": record.stream, "text": record.text}
        show_json_line({"kind": "log", **row})

    def tail(self, records: Sequence[LogRecord]) -> None:
        """Ignored: only records are printed."""

    def end(self) -> None:
        """Nothing to do."""


class StatusLine:
    """Status on standard error: one line that changes on a terminal, else a line for each change."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._shown_text = ""

    def tell(self, text: str) -> None:
        """Shows the text in place of the one before."""
        text = clean(text)
        if text == self._shown_text:
            return
        self._shown_text = text
        if not sys.stderr.isatty():
            say(f"- {text}")
        elif self._status is None:
            self._status = console(errors=True).status(text)
            self._status.start()
        else:
            self._status.update(text)

    def hide(self) -> None:
        """Makes room for the log."""
        if self._status is not None:
            self._status.stop()
            self._status = None
            self._shown_text = ""


class JobFollower:
    """Follows one job. ``task``: that one alone; else all, MOST_TASKS at most, which is announced."""

    def __init__(
        self, client: AsyncClient, *, task: TaskName | None = None, tail: bool = False, raw: bool, as_json: bool
    ) -> None:
        self._client, self._task, self._raw, self._json = client, task, raw, as_json
        self._start: int | str = "tail" if tail else 0
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._seen_first: dict[str, int] = {}
        self._status_line = StatusLine()
        self._heard_at = time.monotonic()
        self.incomplete = False
        """The end of a log did not come."""

    async def run(self, job_id: int) -> JobDetail:
        """Follows to the job's end, and that of its logs. Raises BerthError."""
        try:
            while True:
                job, tasks = await self._patiently(job_id)
                if self._task is None and job.task_count > MOST_TASKS and not self._readers:
                    self._status_line.tell(
                        f"following the first {MOST_TASKS} of {job.task_count} tasks; --task picks one"
                    )
                for task in tasks:
                    self._read(job_id, task, single=self._task is not None or job.task_count == 1)
                if job.over:
                    await self._rest_of_logs()
                    return job
                self._tell(job, tasks)
                await self._pause()
        finally:
            self._status_line.hide()
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    async def _patiently(self, job_id: int) -> tuple[JobDetail, list[Task]]:
        """The job now and then its tasks, or once the server is back."""
        begun = time.monotonic()
        while True:
            try:
                return await self._client.jobs.get(job_id), await self._tasks(job_id)
            except (Unreachable, ServerFault) as error:
                if time.monotonic() - begun > PATIENCE_S:
                    raise
                self._status_line.tell(f"{error}; trying again, and the job goes on")
                await asyncio.sleep(POLL_S)

    async def _tasks(self, job_id: int) -> list[Task]:
        found: list[Task] = []
        async for task in self._client.jobs.tasks(job_id):
            if self._task is None:
                found.append(task)
            elif (task.role, task.index) == (self._task.role, self._task.index):
                return [task]
            if len(found) == MOST_TASKS:
                break
        return found

    def _read(self, job_id: int, task: Task, *, single: bool) -> None:
        """Starts following new attempts: the newest when a task is first seen, and every later one."""
        if not task.attempts:
            return
        first = self._seen_first.setdefault(task.name, task.attempts[0].number)
        for attempt in reversed(task.attempts):
            if attempt.number >= first and attempt.id not in self._readers:
                self._readers[attempt.id] = asyncio.create_task(
                    self._print(job_id, attempt, self._output(task.name, single))
                )

    def _output(self, name: str, single: bool) -> Output:
        if self._json:
            return JsonOutput(name)
        return PlainOutput(raw=self._raw) if single else PrefixedOutput(name, raw=self._raw)

    async def _print(self, job_id: int, attempt: TaskAttempt, output: Output) -> None:
        def tail(records: Sequence[LogRecord]) -> None:
            if records:
                self._status_line.hide()
            output.tail(records)

        def take(record: LogRecord) -> None:
            self._status_line.hide()
            self._heard_at = time.monotonic()
            output.take(record)

        log = self._client.follow(attempt.id, offset=self._start, tail=tail)
        try:
            async for record in log:
                take(record)
        except SocketRefused as refused:
            self._status_line.hide()
            say(f"- {refused} It is asked every {ASK_S:g} s instead")
            begin = max(0, attempt.log_end - TAIL) if log.offset == "tail" else int(log.offset)
            await self._ask(job_id, attempt.id, begin, take, tail)
        finally:
            output.end()

    async def _ask(
        self,
        job_id: int,
        task_attempt: str,
        offset: int,
        take: Callable[[LogRecord], None],
        tail: Callable[[Sequence[LogRecord]], None],
    ) -> None:
        """Reads a log to its end without a websocket."""
        while True:
            piece = await self._client.jobs.log(job_id, task_attempt, offset=offset, limit=MOST_BYTES)
            for record in piece.records:
                take(LogRecord(*record))
            tail([LogRecord(*record) for record in piece.tail])
            offset = piece.next_offset
            if not piece.records:
                if piece.complete:
                    return
                await asyncio.sleep(ASK_S)

    async def _pause(self) -> None:
        """Waits until the next look; raises what a reader raised."""
        if not self._readers:
            await asyncio.sleep(POLL_S)
            return
        done, _ = await asyncio.wait(self._readers.values(), timeout=POLL_S, return_when=asyncio.FIRST_EXCEPTION)
        for reader in done:
            reader.result()
        if len(done) == len(self._readers):
            await asyncio.sleep(POLL_S)

    async def _rest_of_logs(self) -> None:
        if not self._readers:
            return
        ended_at, late = time.monotonic(), set(self._readers.values())
        while late and (left := max(ended_at, self._heard_at) + END_S - time.monotonic()) > 0:
            done, late = await asyncio.wait(late, timeout=left)
            for reader in done:
                reader.result()
        if late:
            self.incomplete = True
            self._status_line.hide()
            say("berth: the end of the log has not come: it is not all here. Later: berth logs")

    def _tell(self, job: JobDetail, tasks: Sequence[Task]) -> None:
        if text := outlook(job, tasks):
            self._status_line.tell(text)


def outlook(job: JobDetail, tasks: Sequence[Task]) -> str:
    """Why there is no output yet, in a line; empty once there is."""
    if job.state == "waiting" and job.waiting is not None:
        return waiting_line(job)
    if job.state == "starting":
        return "; ".join(["starting", *filter(None, map(preparing, tasks))])
    return ""


def preparing(task: Task) -> str:
    """What a task's node is doing before the task runs, such as pulling its image; empty: nothing reported."""
    attempt = task.attempts[0] if task.attempts else None
    if attempt is None or attempt.ended_at is not None or not attempt.progress:
        return ""
    percent = attempt.progress.get("percent")
    share = "" if percent is None else f" {percent} %"
    what = attempt.progress.get("message") or attempt.progress.get("code") or ""
    return f"{task.name} on {attempt.node}: {what}{share}"


def waiting_line(job: JobDetail) -> str:
    """Why it waits, at which place, and until about when."""
    waiting = job.waiting
    assert waiting is not None
    parts = ["waiting" + (f": {waiting.message}" if waiting.message else "")]
    if waiting.paused:
        parts.append("paused")
    if waiting.place is not None:
        parts.append(f"place {waiting.place}")
    if waiting.start is not None:
        parts.append(f"starts about {when(waiting.start.p50)}, by {when(waiting.start.p90)} nine times in ten")
    return "; ".join(parts)


def ending_line(job: JobDetail) -> str:
    """How it ended, in a line."""
    ran = f" after {span((job.ended_at - job.started_at).total_seconds())}" if job.started_at and job.ended_at else ""
    cause = f": {job.end_message}" if job.end_message and job.state != "succeeded" else ""
    return f"job {job.label} {job.state}{ran}{cause}"


def exit_code(job: JobDetail) -> int:
    """The job's own; 1 where it ended badly without one that a process can pass on."""
    if job.state == "succeeded":
        return 0
    return job.exit_code if job.exit_code is not None and 0 < job.exit_code < 256 else 1

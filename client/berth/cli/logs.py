"""`berth logs`: prints tasks' logs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from berth.cli.follow import TAIL, PlainOutput, screen
from berth.cli.jobs import AsJson, JobName, Raw, followed, session
from berth.cli.screen import say, show_json_line, when
from berth.cli.target import TaskName, job_id, newest_attempt
from berth.client import Client
from berth.logs import END_S, MOST_BYTES, LogRemainder
from berth.model.jobs import LogRecord, TaskAttempt

_WHY = {"quota": "its virtual cluster has no room for more logs", "age": "it was old"}


def logs(
    ctx: typer.Context,
    job: JobName,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="ROLE/INDEX", help="Which task; else the first.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on to the job's end, through restarts and retries.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="With -f: all tasks, each line with its task.")
    ] = False,
    tail: Annotated[bool, typer.Option("--tail", help="Begin shortly before its end (64 kB).")] = False,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of a task: as it is now, of one that has ended to its end, or with -f as it grows. The exit code of
    -f is the job's; 74 where the end of the log does not come."""
    if everything and (task is not None or not follow):
        raise typer.BadParameter("--all goes with -f, and without --task")
    wanted = TaskName.of(task) if task is not None else None
    with session(ctx).client() as client:
        found = job_id(client, job)
        if not follow:
            attempt = newest_attempt(client, found, wanted)
            _print(client, found, attempt, raw=raw, tail=tail, as_json=as_json)
            return
        if wanted is None and not everything:
            wanted = _first(client, found)
    raise typer.Exit(followed(session(ctx), found, task=wanted, tail=tail, raw=raw, as_json=as_json))


def _first(client: Client, job: int) -> TaskName | None:
    first = next(client.jobs.tasks(job), None)
    count = client.jobs.get(job).task_count
    if count > 1 and first is not None:
        say(f"- task {first.name}, one of {count}; --task picks another, --all shows all")
    return TaskName(first.role, first.index) if first is not None else None


def _print(client: Client, job: int, attempt: TaskAttempt, *, raw: bool, tail: bool, as_json: bool) -> None:
    if not tail and not as_json:
        through = screen(raw=raw)
        try:
            for text in client.log_text(job, attempt.id):
                sys.stdout.write(through.feed(text))
                sys.stdout.flush()  # the rest may be long in coming
        finally:
            sys.stdout.write(through.end())
        return
    output = PlainOutput(raw=raw)
    offset = max(0, attempt.log_end - TAIL) if tail else 0
    rest = LogRemainder(offset, END_S)
    while not rest.over:
        piece = client.jobs.log(job, attempt.id, offset=rest.offset, limit=MOST_BYTES)
        for record in (LogRecord(*row) for row in piece.records):
            if as_json:
                show_json_line({"time_ms": record.time_ms, "stream": record.stream, "text": record.text})
            else:
                output.take(record)
        pause = rest.take(piece)
        if pause and attempt.ended_at is None:
            break
        if pause:
            sys.stdout.flush()
        time.sleep(pause)
    output.end()
    if piece.deleted_at:
        say(f"- this log was deleted at {when(piece.deleted_at)}: {_WHY[piece.deleted_because]}")

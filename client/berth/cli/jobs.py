"""Commands about jobs: submit, run, list, show, stop and the like."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from berth.cli import completion
from berth.cli.code import upload
from berth.cli.exit_codes import INCOMPLETE, INTERRUPTED, NOT_VALID, error_text, location
from berth.cli.follow import JobFollower, ending_line, exit_code
from berth.cli.job_page import job_page, parking_words, start_lines, why_lines
from berth.cli.run_file import Run
from berth.cli.screen import say, show, show_json, show_json_line, span, table
from berth.cli.settings import Session
from berth.cli.target import JOB_HELP, TaskName, job_id
from berth.client import AsyncClient, Client
from berth.errors import Conflict, Misused, NotAllowed, NotFound, NotValid, Problem
from berth.model.jobs import Estimate, Job, JobDetail, Validation

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", help=JOB_HELP, show_default=False, autocompletion=completion.jobs)
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Print its log to its end; exit with its exit code.")]
Raw = Annotated[bool, typer.Option("--raw", help="Print a log's control sequences on a terminal, too.")]
CodeFolder = Annotated[
    str | None,
    typer.Option(
        "--code", metavar="DIR", help="A folder of code that comes with it: the commands begin in a copy of it."
    ),
]
MOST_SHOWN, MOST_MEASURED = 50, 8
"""Tasks in a list; of how many it is shown what their GPUs did, each a request of its own."""
DAY_S = 86_400


class Sort(StrEnum):
    """Orders of a list of jobs."""

    SUBMITTED = "submitted"
    ENDED = "ended"
    NAME = "name"
    PRIORITY = "priority"


SORTS = {Sort.SUBMITTED: None, Sort.ENDED: "-ended_at", Sort.NAME: "name", Sort.PRIORITY: "-priority"}
T = TypeVar("T")


def submit(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A job file, YAML or JSON; - reads standard input.")],
    code: CodeFolder = None,
    follow: Follow = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of it.")] = False,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Sent again with it, it is the same job.")] = None,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Submit a job file."""
    document = read(file)
    with session(ctx).client() as client:
        if dry_run:
            tell_estimate(client.jobs.estimate(document), as_json=as_json)
            return
        job = client.jobs.submit(document, key=key, code=code and upload(client, code))
    submitted(ctx, job, follow=follow, raw=raw, as_json=as_json)


def check(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A job file, YAML or JSON; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Check a job file without submitting it: every problem with its line, and hints."""
    with session(ctx).client() as client:
        found = client.jobs.validate(read(file))
    if as_json:
        show_json(found)
    else:
        show(*check_lines(found))
    if not found.valid:
        raise typer.Exit(NOT_VALID)


def move(
    ctx: typer.Context,
    job: JobName,
    vc: Annotated[
        str, typer.Argument(metavar="VC", help="Where it shall wait.", autocompletion=completion.virtual_clusters)
    ],
    as_json: AsJson = False,
) -> None:
    """Let a waiting job wait in another virtual cluster, with its old time of submission."""
    with session(ctx).client() as client:
        moved = client.jobs.move(job_id(client, job), vc)
    show_json(moved) if as_json else show(f"job {moved.label} waits in {moved.vc}")


def run(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run, after --.")],
    image: Annotated[str, typer.Option(envvar="BERTH_IMAGE", help="The container image.")],
    gpus: Annotated[int, typer.Option("--gpus", "-g", min=0, help="GPUs of each task.")] = 1,
    sku: Annotated[str | None, typer.Option(help="The kind of GPU; else any.")] = None,
    cpu: Annotated[int | None, typer.Option(min=1, help="Cores; 4 for each GPU, else 1.", show_default=False)] = None,
    memory: Annotated[
        str | None, typer.Option(help="Such as 64G; 16G for each GPU, else 2G.", show_default=False)
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="How many equal tasks, which start together.")] = 1,
    vc: Annotated[
        str | None,
        typer.Option(
            envvar="BERTH_VC",
            help="The virtual cluster; else the only one you are in.",
            autocompletion=completion.virtual_clusters,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="The job's name; else after the program.", show_default=False)] = "",
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Set a variable.")] = None,
    priority: Annotated[str | None, typer.Option(help="crit, prod, test or oppo.")] = None,
    time_limit: Annotated[str | None, typer.Option(help="Such as 2d or 90m.")] = None,
    borrow: Annotated[bool, typer.Option("--borrow", help="Start on idle GPUs of others, too.")] = False,
    retries: Annotated[int, typer.Option(min=0, help="How many failures are tried again.")] = 0,
    code: CodeFolder = None,
    follow: Follow = False,
    to_print: Annotated[bool, typer.Option("--print", help="Print the job file; nothing is submitted.")] = False,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Submit one command: the job file is made of the options."""
    with session(ctx).client() as client:
        wanted = Run(
            command=command, image=image, vc=vc or only_vc(client), name=name, tasks=tasks, gpus=gpus, sku=sku,
            cpu=cpu, memory=memory, env=env or (), priority=priority, time_limit=time_limit, borrow=borrow,
            retries=retries,
        )  # fmt: skip
        if to_print:
            print(wanted.document(), end="")
            return
        if code is not None:
            wanted = replace(wanted, code=upload(client, code))
        try:
            job = client.jobs.submit(wanted.document())
        except Problem as refusal:
            # Lines are of a file that nobody has seen.
            refusal.errors = tuple(replace(one, line=None) for one in refusal.errors)
            raise
    submitted(ctx, job, follow=follow, raw=raw, as_json=as_json)


def ls(
    ctx: typer.Context,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Of everybody whose jobs you may see.")] = False,
    user: Annotated[str | None, typer.Option(help="Of this user; else yours.")] = None,
    vc: Annotated[str | None, typer.Option(help="In this virtual cluster.")] = None,
    state: Annotated[list[str] | None, typer.Option(help="In this state; may be given several times.")] = None,
    name: Annotated[str | None, typer.Option(help="With this in the name.")] = None,
    sort: Annotated[
        Sort,
        typer.Option(help="What comes first: the newest, the one that ended last, the first name, the most urgent."),
    ] = Sort.SUBMITTED,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first. By their end come only those that are over.

    RAN is the time that a job has really run, without what it waited between its attempts; empty while it waits.
    """
    with session(ctx).client() as client:
        whose = None if everybody else user or client.me().username
        page = min(count + 1, 200)
        found = client.jobs.list(state=state or (), vc=vc, user=whose, name=name, order=SORTS[sort], page=page)
        jobs, more = several(found, count)
    if as_json:
        show_json(jobs)
        return
    ends = sort is Sort.ENDED
    columns = (">ID", "JOB", "VC", "STATE", ">TASKS", ">GPUS", "ENDED" if ends else "SUBMITTED", ">RAN", "*")
    show(table(columns, (_row(job, ends=ends) for job in jobs)))
    if more:
        say(f"- there are more; -n {count * 5} shows {count * 5}")


def show_job(ctx: typer.Context, job: JobName, as_json: AsJson = False) -> None:
    """Show a job: its state, its tasks, what their GPUs did, what happened to it."""
    with session(ctx).client() as client:
        found = client.jobs.get(job_id(client, job))
        tasks, more = several(client.jobs.tasks(found.id), MOST_SHOWN)
        if as_json:
            show_json({"job": found, "tasks": tasks, "advice": client.jobs.advice(found.id).advice})
            return
        events = list(client.jobs.events(found.id))
        advice = client.jobs.advice(found.id).advice
        newest = [task.attempts[0] for task in tasks if task.attempts and task.attempts[0].gpus]
        usage = [client.jobs.metrics(found.id, task_attempt=one.id, step=DAY_S) for one in newest[:MOST_MEASURED]]
    show(*job_page(found, tasks, events, advice, usage, more=more))


def why(ctx: typer.Context, job: JobName, as_json: AsJson = False) -> None:
    """Say why a job waits, at which place, and when it will start."""
    with session(ctx).client() as client:
        found = client.jobs.get(job_id(client, job))
    show_json(found.waiting) if as_json else show(*why_lines(found))


def config(ctx: typer.Context, job: JobName) -> None:
    """Print a job's file as it was submitted, its secrets masked."""
    with session(ctx).client() as client:
        print(client.jobs.config(job_id(client, job)), end="")


def stop(
    ctx: typer.Context,
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help=JOB_HELP, autocompletion=completion.jobs)],
    as_json: AsJson = False,
) -> None:
    """Stop jobs: at once where they wait, else by SIGTERM and their grace period. One that cannot be stopped is told,
    and keeps no other from it."""
    stopped, code = [], 0
    with session(ctx).client() as client:
        for job in jobs:
            try:
                stopped.append(client.jobs.stop(job_id(client, job)))
            except (Conflict, NotAllowed, NotFound, NotValid, Misused) as refusal:
                words, refused = error_text(refusal)
                say(words)
                code = code or refused
    _changed(stopped, as_json=as_json)
    if code:
        raise typer.Exit(code)


def pause(ctx: typer.Context, job: JobName, as_json: AsJson = False) -> None:
    """Hold a waiting job back."""
    with session(ctx).client() as client:
        _changed([client.jobs.pause(job_id(client, job))], as_json=as_json)


def park(ctx: typer.Context, job: JobName, as_json: AsJson = False) -> None:
    """Take a running job off its GPU, which is lent until it is resumed."""
    with session(ctx).client() as client:
        _changed([client.jobs.park(job_id(client, job))], as_json=as_json)


def resume(ctx: typer.Context, job: JobName, as_json: AsJson = False) -> None:
    """Let a paused or parked job go on."""
    with session(ctx).client() as client:
        _changed([client.jobs.resume(job_id(client, job))], as_json=as_json)


# ---------------------------------------------------------------- shared


def session(ctx: typer.Context) -> Session:
    """Settings of this run of the command."""
    known = ctx.find_object(Session)
    assert known is not None
    return known


def read(file: str) -> bytes:
    """A job file's bytes. Raises Misused."""
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Misused(f"{file} cannot be read: {error.strerror}") from error


def several(rows: Iterator[T], count: int) -> tuple[list[T], bool]:
    """As many rows as asked for, and whether there are more."""
    found = list(islice(rows, count + 1))
    return found[:count], len(found) > count


def only_vc(client: Client) -> str:
    """The virtual cluster of a user who is in one alone. Raises Misused."""
    seen = list(client.virtual_clusters.list())
    mine = [vc.name for vc in seen if vc.role is not None]
    if len(mine) == 1:
        return mine[0]
    if mine:
        raise Misused(f"name a virtual cluster: --vc {' or '.join(mine)}")
    if seen and client.me().role == "admin":  # who may submit to each
        raise Misused(f"you are a member of no virtual cluster; name one: --vc {' or '.join(vc.name for vc in seen)}")
    raise Misused("you are in no virtual cluster: ask an administrator, or the lead of one, to make you a member")


def submitted(ctx: typer.Context, job: JobDetail, *, follow: bool, raw: bool, as_json: bool) -> None:
    """Prints a job that was just submitted, and follows it where asked to."""
    if follow:
        say(f"- job {job.label} submitted (id {job.id})")
        raise typer.Exit(followed(session(ctx), job.id, raw=raw, as_json=as_json))
    if as_json:
        show_json(job)
    else:
        show(f"job {job.label} submitted (id {job.id}); follow it: berth logs -f {job.id}")


def followed(
    on: Session, job: int, *, task: TaskName | None = None, tail: bool = False, raw: bool, as_json: bool
) -> int:
    """Follows a job to its end; its exit code."""

    async def go() -> tuple[JobDetail, bool]:
        server = on.server()
        async with AsyncClient(server.url, server.token, ca_file=server.ca_file) as client:
            follower = JobFollower(client, task=task, tail=tail, raw=raw, as_json=as_json)
            return await follower.run(job), follower.incomplete

    try:
        ended, incomplete = asyncio.run(go())
    except KeyboardInterrupt:
        say(f"\n- the job goes on; stop it: berth stop {job}")
        return INTERRUPTED
    if as_json:
        show_json_line({"kind": "job", "job": ended})
    say(f"- {ending_line(ended)}")
    return exit_code(ended) or (INCOMPLETE if incomplete else 0)


def check_lines(found: Validation) -> Iterator[str]:
    """Findings in a job file."""
    if found.summary is not None:
        asked = found.summary
        yield f"{asked.name} is valid: {asked.task_count} tasks, {asked.gpu_count} GPUs, in {asked.vc}"
    yield from (f"{location(problem.path, problem.line)}{problem.message}" for problem in found.problems)
    yield from (f"hint: {hint}" for hint in found.hints)


def tell_estimate(found: Estimate, *, as_json: bool) -> None:
    """Prints the forecast for a job."""
    if as_json:
        show_json(found)
    elif found.waiting is None:
        show(f"It would start now, on {', '.join(found.nodes)}.")
    else:
        place = ""
        if found.waiting.place is not None:
            place = f" Place {found.waiting.place} in its queue, counted among the jobs that want the same."
        show(f"It would wait: {found.waiting.message}.{place}", *start_lines(found.start, found.score, found.no_start))


def _row(job: Job, *, ends: bool) -> tuple[object, ...]:
    message = job.waiting_message or (job.end_message if job.state != "succeeded" else "")
    at = job.ended_at if ends else job.submitted_at
    return job.id, job.label, job.vc, job.state, job.task_count, job.gpu_count, at, ran_words(job), message


def ran_words(job: Job) -> str:
    """How long it has really run; empty while it waits or starts."""
    ran = job.ran(datetime.now(UTC))
    return "" if ran is None else span(ran)


def _changed(jobs: list[JobDetail], *, as_json: bool) -> None:
    if as_json:
        show_json(jobs)
    else:
        show(*(f"job {job.label} is {job.state}{_paused(job)}" for job in jobs))


def _paused(job: JobDetail) -> str:
    if job.parking is not None and job.parking.state != "held":
        return f", {parking_words(job.parking)}"
    return ", paused" if job.waiting is not None and job.waiting.paused else ""

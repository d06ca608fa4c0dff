"""Commands that change a job: its tags, its class, its place in the queue."""

from __future__ import annotations

from typing import Annotated

import typer

from berth.cli import completion
from berth.cli.jobs import AsJson, JobName, session
from berth.cli.screen import show, show_json
from berth.cli.target import job_id
from berth.errors import Misused

TAGS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Parser settings with which `-word` is a tag."""


def tag(
    ctx: typer.Context,
    job: JobName,
    tags: Annotated[list[str] | None, typer.Argument(metavar="[+TAG|-TAG]...", help="To give, or to take off.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give a job tags and take some off: berth tag train +baseline -old. Without any: show them."""
    wanted = tags or []
    if wrong := [one for one in wanted if one[:1] not in {"+", "-"} or len(one) < 2]:
        raise Misused(f"write +{wrong[0].lstrip('+-') or 'TAG'} to give a tag, -TAG to take it off")
    add, remove = ([one[1:] for one in wanted if one[0] == sign] for sign in "+-")
    with session(ctx).client() as client:
        number = job_id(client, job)
        found = client.jobs.tag(number, add=add, remove=remove).tags if wanted else client.jobs.get(number).tags
    show_json(found) if as_json else show(*found)


def priority(
    ctx: typer.Context,
    job: JobName,
    priority_class: Annotated[str, typer.Argument(metavar="CLASS", help="crit, prod, test or oppo.")],
    as_json: AsJson = False,
) -> None:
    """Give a job that waits or runs another priority class."""
    with session(ctx).client() as client:
        changed = client.jobs.change_priority(job_id(client, job), priority_class)
    show_json(changed) if as_json else show(f"job {changed.label} has the class {priority_class}")


def place(
    ctx: typer.Context,
    job: JobName,
    front: Annotated[bool, typer.Option("--front", help="Before all of its class.")] = False,
    before: Annotated[
        str | None, typer.Option(metavar="JOB", help="Right before this job.", autocompletion=completion.jobs)
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="JOB", help="Right behind this job.", autocompletion=completion.jobs)
    ] = None,
    own: Annotated[bool, typer.Option("--own", help="Where it would stand by itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move a waiting job in the queue: a lead among the team's, its owner among their own."""
    if front + own + (before is not None) + (after is not None) != 1:
        raise Misused("say where to: --front, --before JOB, --after JOB or --own")
    with session(ctx).client() as client:
        beside = {name: job_id(client, one) for name, one in (("before", before), ("after", after)) if one is not None}
        number = job_id(client, job)
        if beside:
            moved = client.jobs.place(number, before=beside.get("before"), after=beside.get("after"))
        else:
            moved = client.jobs.place(number, to="front" if front else "own")
    show_json(moved) if as_json else show(f"job {moved.label} has another place now")

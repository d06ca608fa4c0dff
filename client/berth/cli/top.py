"""`berth top`: the cluster on one live screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.rule import Rule

from berth.cli.cluster import node_table, queue_table, vc_table
from berth.cli.jobs import AsJson, ran_words, session
from berth.cli.screen import cell, console, show_json, table, when
from berth.client import Client
from berth.errors import ServerFault, TooMany, Unreachable
from berth.model.cluster import Node, VirtualCluster
from berth.model.jobs import Job, Queued

MOST_ROWS = 15
WIDEST = 120


@dataclass(frozen=True)
class Screen:
    """The cluster at one moment."""

    server: str
    at: datetime
    nodes: list[Node]
    virtual_clusters: list[VirtualCluster]
    running: list[Job]
    queue: list[Queued]


def top(
    ctx: typer.Context,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once; so it is where output is no terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch nodes, virtual clusters, jobs and queue. Ctrl-C ends it."""
    with session(ctx).client() as client:
        if as_json:
            show_json(look(client))
        elif once or not sys.stdout.isatty():
            console().print(page(look(client), most=None))
        else:
            _watch(client, every)


def _watch(client: Client, every: float) -> None:
    screen = look(client)
    with Live(page(screen), console=console(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every)
                try:
                    screen, trouble = look(client), ""
                except (Unreachable, ServerFault, TooMany) as error:
                    trouble = str(error)
                live.update(page(screen, trouble=trouble), refresh=True)
        except KeyboardInterrupt:
            return


def look(client: Client) -> Screen:
    """The cluster now."""
    return Screen(
        server=client.server.url,
        at=datetime.now(UTC),
        nodes=list(client.nodes.list()),
        virtual_clusters=list(client.virtual_clusters.list()),
        running=list(islice(client.jobs.list(state=["starting", "running", "stopping"], page=200), 200)),
        queue=list(islice(client.queue(), 200)),
    )


def page(screen: Screen, *, trouble: str = "", most: int | None = MOST_ROWS) -> RenderableType:
    """The screen; ``most`` rows of each list, and how many there are besides."""
    return Group(*_parts(screen, trouble, most))


def _parts(screen: Screen, trouble: str, most: int | None) -> Iterator[RenderableType]:
    gpus = [gpu for node in screen.nodes for gpu in node.gpus]
    held = sum(gpu.holder is not None for gpu in gpus)
    yield cell(
        f"{screen.server}  {screen.at.astimezone():%H:%M:%S}  {held} of {len(gpus)} GPUs held  {trouble}".rstrip()
    )
    yield _heading("virtual clusters")
    yield vc_table(screen.virtual_clusters[:most])
    yield from _more(len(screen.virtual_clusters), most)
    yield _heading("nodes")
    yield node_table(screen.nodes[:most])
    yield from _more(len(screen.nodes), most)
    yield _heading("running")
    yield table(
        (">ID", "JOB", "VC", "STATE", ">GPUS", "SINCE", ">RAN"), (_running(job) for job in screen.running[:most])
    )
    yield from _more(len(screen.running), most)
    yield _heading("waiting")
    yield queue_table(screen.queue[:most])
    yield from _more(len(screen.queue), most)


def _heading(text: str) -> RenderableType:
    """A heading: off a terminal the console has no width, but a line has."""
    return Constrain(Rule(text, align="left"), WIDEST)


def _more(count: int, most: int | None) -> Iterator[RenderableType]:
    if most is not None and count > most:
        yield cell(f"… and {count - most} more")


def _running(job: Job) -> tuple[object, ...]:
    return job.id, job.label, job.vc, job.state, job.gpu_count, when(job.running_since), ran_words(job)

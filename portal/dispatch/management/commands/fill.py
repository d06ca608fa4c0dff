"""``manage.py fill``: a made-up cluster with a long past, to measure the portal at size."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from portal.accounts.models import User
from portal.clusters.models import Node
from portal.dispatch.management.filling.drafts import Drafts
from portal.dispatch.management.filling.hardware import NODE, nodes_make, quotas_share
from portal.dispatch.management.filling.past import Past
from portal.dispatch.management.filling.people import USER, users_make, vcs_make
from portal.dispatch.management.filling.present import NotPlaced, Present
from portal.dispatch.management.filling.sizes import Sizes
from portal.dispatch.management.filling.tables import rows_settle
from portal.jobs.models import Job
from portal.jobs.services.rollup import usage_roll

NUMBERS = {
    "finished": (1_000_000, "jobs that are over"),
    "waiting": (10_000, "jobs that wait"),
    "running": (1_600, "jobs that run and fill the virtual clusters' quotas"),
    "users": (500, "users, without passwords"),
    "vcs": (50, "virtual clusters, which share the nodes"),
    "nodes": (1_024, "nodes with 8 simulated GPUs each"),
    "days": (365, "how far back the finished jobs go"),
    "seed": (1, "the same number makes the same past"),
}


class Command(BaseCommand):
    help = (
        "Fill an empty database with a made-up cluster, to measure the portal at size. Not for a portal in use: no "
        "server is behind the nodes, and the jobs' logs are empty."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        for name, (default, words) in NUMBERS.items():
            parser.add_argument(f"--{name}", type=int, default=default, help=f"{words} (default {default:,})")
        parser.add_argument("--force", action="store_true", help="also where there are jobs already")

    def handle(self, *args: Any, **options: Any) -> None:
        sizes = Sizes(**{name: options[name] for name in NUMBERS})
        if problems := sizes.problems():
            raise CommandError("Nothing was filled:\n" + "\n".join(f"  {problem}." for problem in problems))
        _refuse_what_is_there(force=options["force"])
        begin = perf_counter()
        try:
            _fill(sizes)
        except NotPlaced as error:
            raise CommandError(f"{error}; drop this database and give other numbers.") from None
        self.stdout.write(f"Filled in {perf_counter() - begin:.0f} s.")


def _refuse_what_is_there(*, force: bool) -> None:
    if User.objects.filter(username__startswith=USER).exists() or Node.objects.filter(name__startswith=NODE).exists():
        raise CommandError("Nothing was filled: users or nodes with the names of made-up ones are there already.")
    jobs = Job.objects.count()
    if jobs and not force:
        raise CommandError(f"Nothing was filled: this database has {jobs:,} jobs. Give an empty one, or --force.")


def _fill(sizes: Sizes) -> None:
    now = timezone.now().replace(microsecond=0)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        steps = {
            name: progress.add_task(name, total=total)
            for name, total in {
                "users and virtual clusters": sizes.users, "nodes": sizes.nodes, "finished jobs": sizes.finished,
                "running jobs": sizes.running, "waiting jobs": sizes.waiting, "days of usage": sizes.days + 1,
            }.items()
        }  # fmt: skip
        members = vcs_make(sizes, users_make(sizes), now)
        progress.advance(steps["users and virtual clusters"], sizes.users)
        quotas_share(sizes, members, nodes_make(sizes.nodes, now), now)
        progress.advance(steps["nodes"], sizes.nodes)
        drafts = Drafts(members, now)
        Past(sizes, drafts, now).make(lambda count: progress.advance(steps["finished jobs"], count))
        present = Present(sizes, drafts, now)
        present.run()
        progress.advance(steps["running jobs"], sizes.running)
        present.wait()
        rows_settle()
        progress.advance(steps["waiting jobs"], sizes.waiting)
        while days := usage_roll(now=now, at_most=7):
            progress.advance(steps["days of usage"], days)

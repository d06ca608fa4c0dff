"""Everything that filling a database does, in order, with a bar of progress for each step at a terminal."""

from __future__ import annotations

import sys

from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from portal.accounts.models import User
from portal.hardware.models import Node
from portal.jobs.models import Job
from portal.usage.services.rollup import usage_roll
from tests.benchmarks.filling.drafts import Drafts
from tests.benchmarks.filling.hardware import NODE, nodes_make, quotas_share
from tests.benchmarks.filling.past import Past
from tests.benchmarks.filling.people import USER, users_make, vcs_make
from tests.benchmarks.filling.present import Present
from tests.benchmarks.filling.sizes import NotFilled, Sizes
from tests.benchmarks.filling.tables import rows_settle


def take(sizes: Sizes, *, force: bool) -> None:
    """Fill the database. Raises NotFilled, without `force` also where there are jobs already."""
    _refuse_what_is_there(force=force)
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


def _refuse_what_is_there(*, force: bool) -> None:
    if User.objects.filter(username__startswith=USER).exists() or Node.objects.filter(name__startswith=NODE).exists():
        raise NotFilled("Nothing was filled: users or nodes with the names of made-up ones are there already.")
    jobs = Job.objects.count()
    if jobs and not force:
        raise NotFilled(f"Nothing was filled: this database has {jobs:,} jobs. Give an empty one, or --force.")

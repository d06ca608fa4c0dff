"""Changes cells and quotas, and reports the effect on running jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

import scheduling
from portal.cluster.services.configuration import configuration_import
from portal.cluster.services.retiring import node_retire
from portal.hardware.models import Node
from portal.jobs.models import Job
from portal.jobs.services.forgetting import node_tasks_forget
from portal.queue.selectors.queue import jobs_waiting_for
from portal.scheduler.quota_dry_run import Effect, dry_run_effect
from portal.teams.models import QuotaChange
from portal.teams.selectors.details import Line, lines_named
from portal.teams.selectors.quotas import Lines, Planned, Quotas, base_lines, changes_planned
from portal.teams.services.quotas import quota_change_create, quota_changes_apply, quotas_set


def configuration_change(
    *, found: scheduling.Cluster, now: datetime, actor: str, dry_run: bool, version: int | None = None
) -> Effect:
    """Import a configuration, or dry-run it; returns the effect on running jobs."""
    return _done(lambda: configuration_import(found=found, now=now, actor=actor, version=version), now, dry_run)


def quotas_change(
    *, lines: Lines, now: datetime, actor: str, dry_run: bool, reason: str = "", version: int | None = None
) -> Effect:
    """Change quota lines, or dry-run it; returns the effect on running jobs."""

    def change() -> None:
        quotas_set(lines=lines, now=now, actor=actor, reason=reason, version=version)

    return _done(change, now, dry_run)


def _done(change: Callable[[], object], now: datetime, dry_run: bool) -> Effect:
    effect = dry_run_effect(change=change, now=now)
    if not dry_run:
        change()
    return effect


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """The effect of removing a node: quotas the cluster can no longer cover, as sentences; the effect on running jobs;
    and (``stranded``) waiting jobs that may run on no other node."""

    shortages: list[str]
    effect: Effect
    stranded: list[Job]


def node_remove(*, node: Node, now: datetime, actor: str, dry_run: bool) -> NodeRemoval:
    """Remove a node from the cluster, or dry-run it. Raises Conflict while tasks run on it, or something needs it."""
    shortages: list[str] = []

    def remove() -> None:
        with transaction.atomic():
            node_tasks_forget(node=node, now=now)
            shortages[:] = node_retire(node=node, now=now, actor=actor)

    stranded = jobs_waiting_for(node=node)
    return NodeRemoval(shortages, _done(remove, now, dry_run), stranded)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A planned quota change: its row (without an id in a dry run), its lines, the lines that return at its end, and
    its effect on jobs running now."""

    row: QuotaChange
    named: list[Line]
    returns: list[Line]
    effect: Effect = field(default_factory=Effect)


def quota_change_plan(
    *,
    lines: Lines,
    starts_at: datetime,
    ends_at: datetime | None,
    reason: str,
    now: datetime,
    actor: str,
    dry_run: bool,
) -> PlannedChange:
    """Plan a quota change, or dry-run it."""

    def create() -> QuotaChange:
        return quota_change_create(
            lines=lines, starts_at=starts_at, ends_at=ends_at, reason=reason, actor=actor, now=now
        )

    def begin() -> None:
        create()
        quota_changes_apply(now=starts_at)

    effect = dry_run_effect(change=begin, now=now)
    row = QuotaChange(starts_at=starts_at, ends_at=ends_at, reason=reason, actor=actor) if dry_run else create()
    return PlannedChange(row, lines_named(lines), returns_of(lines, starts_at, ends_at), effect)


def returns_of(lines: Lines, starts_at: datetime, ends_at: datetime | None) -> list[Line]:
    """The quotas that return when a change of these lines ends, as planned today."""
    if ends_at is None:
        return []
    others = [one for one in changes_planned() if one != Planned(starts_at, ends_at, lines)]
    back = Quotas(base_lines(), others).at(ends_at)
    return lines_named({key: back.get(key, 0) for key in lines})

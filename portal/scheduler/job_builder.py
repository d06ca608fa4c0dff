"""An engine job of a job's row and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.conf import settings

import scheduling
from portal.jobs.container import grace_seconds
from portal.jobs.models import Job, TaskRole
from portal.jobs.selectors.storages import storages_place
from portal.jobs.services.avoided_nodes import NONE_AVOIDED, nodes_avoided
from portal.jobs.states import JobState
from portal.scheduler.dependencies import NEWEST, HeldBack, dependencies, job_key
from portal.scheduler.facts import Facts, facts_of
from portal.storages.selectors.ties import StorageTies
from portal.teams.selectors.rights import firm_rights

DRAFT = "draft"
"""Engine id of a job that is not stored."""


class JobRow(NamedTuple):
    """The mutable columns of a job."""

    pk: int
    vc_id: int
    user_id: int
    state: str
    priority: int
    gang: bool
    paused: bool
    queue_ms: int | None
    led: bool
    kept: bool
    not_before: datetime | None
    stamp: str
    avoid_nodes: str  # JSON, mostly NONE_AVOIDED
    waiting_code: str  # of the stored reason for which it waits
    waiting_at: str | None  # when that was written

    @property
    def facts(self) -> tuple[object, ...]:
        """All columns but the stored reason, which no plan reads."""
        return self[:-2]

    def may_start(self, *, elastic: bool) -> bool:
        """Whether tasks may be placed: a gang's at once, from WAITING, extra tasks once it runs; those of a job that is
        no gang also while some run."""
        more = {JobState.RUNNING} if elastic else set() if self.gang else {JobState.STARTING, JobState.RUNNING}
        return self.state == JobState.WAITING or self.state in more

    @property
    def waits_whole(self) -> bool:
        """Whether all its tasks wait, so that their rows need not be read."""
        return self.gang and self.state == JobState.WAITING


class JobBuilder:
    """Builds engine jobs under the names, defaults and limits of one moment, which ``rules`` holds."""

    def __init__(
        self,
        now: datetime,
        vc_names: Mapping[int, str],
        borrow: Mapping[int, str],
        users: Mapping[int, str],
        nodes: frozenset[str],
        ties: StorageTies,
    ) -> None:
        self.now, self.vc_names, self.borrow, self.users, self.nodes, self.ties = (
            now, vc_names, borrow, users, nodes, ties,
        )  # fmt: skip
        self.max_min_run_s = settings.MAX_MIN_RUN_S
        limits = settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S, settings.DEFAULT_GRACE_S
        self.rules = vc_names, borrow, limits, ties.apart, (nodes, ties.folders) if ties.apart else None
        self.places: dict[tuple[object, ...], tuple[frozenset[str] | None, HeldBack | None]] = {}

    def job(
        self,
        row: JobRow,
        facts: Facts,
        wanted: tuple[scheduling.TaskRef, ...],
        after: tuple[str, ...],
        *,
        preemptible: bool,
        grow_from: datetime | None = None,
    ) -> scheduling.Job:
        """The job as the engine sees it."""
        return scheduling.Job(
            id=job_key(row.pk),
            vc=self.vc_names[row.vc_id],
            user=self.users[row.user_id],
            priority=row.priority,
            roles=facts.roles,
            submitted_ms=facts.submitted_ms if row.queue_ms is None else row.queue_ms,
            order_id=row.pk,
            wanted=wanted,
            gang=row.gang,
            time_limit_ms=facts.time_limit_ms,
            min_run_ms=min(facts.min_run_s, self.max_min_run_s) * 1000,
            grace_ms=grace_seconds(facts.grace_s) * 1000,
            lazy_preemption=facts.lazy,
            preemptible=preemptible,
            borrow=self._borrow(row, facts.borrow, preemptible),
            avoid_nodes=frozenset() if row.avoid_nodes == NONE_AVOIDED else nodes_avoided(row.avoid_nodes, self.now),
            only_nodes=self.place(facts)[0],
            after=after,
            paused=row.paused,
            led=row.led,
            grow_from_ms=None if grow_from is None else int(grow_from.timestamp() * 1000),
        )

    def firm(self, asking: Iterable[tuple[JobRow, Facts]]) -> frozenset[int]:
        """Those never preempted: they ask for it, and their user's right covers them and the ones before."""
        asked = sorted(asking, key=lambda one: one[0].pk)
        left = firm_rights(now=self.now) if asked else {}
        firm = set()
        for row, facts in asked:
            key = (row.vc_id, row.user_id)
            if facts.firm and facts.gpus <= left.get(key, 0):
                left[key] -= facts.gpus
                firm.add(row.pk)
        return frozenset(firm)

    def _borrow(self, row: JobRow, said: str | None, preemptible: bool) -> scheduling.Borrow:
        """The job's own choice, else its team's default; a non-preemptible job holds nothing on loan."""
        return scheduling.Borrow(said or self.borrow[row.vc_id]) if preemptible else scheduling.Borrow.NEVER

    def place(self, facts: Facts) -> tuple[frozenset[str] | None, HeldBack | None]:
        """Nodes that the job may run on (None: all), and why none has its storages, if so. Cached: many jobs are alike
        in that."""
        key = facts.only_nodes, facts.not_nodes, facts.storages
        if key not in self.places:
            self.places[key] = self._place(facts)
        return self.places[key]

    def _place(self, facts: Facts) -> tuple[frozenset[str] | None, HeldBack | None]:
        left, why = storages_place(
            ties=self.ties, mounted=facts.storages, nodes=self.nodes, only=facts.only_nodes, but=facts.not_nodes
        )
        return left, HeldBack("storage", why) if why else None


def draft_read(
    *, draft: Job, roles: Sequence[TaskRole], now: datetime, nodes: frozenset[str], ties: StorageTies
) -> scheduling.Job | HeldBack:
    """An unstored job as the engine would see it, last of all submitted at that moment; or why it would be kept out of
    the queue."""
    user, row = draft.user.username, _row_of(draft)
    facts = facts_of(
        roles,
        stamp="",
        submitted_at=now,
        user=user,
        berth=draft.spec["berth"],
        lazy=bool(draft.spec.get("lazy_preemption")),
        mounts=draft.spec.get("storages") or (),
    )
    needs = dependencies({NEWEST: facts.after})
    if NEWEST in needs.broken:
        return needs.broken[NEWEST]
    names, borrow = {draft.vc_id: draft.vc.name}, {draft.vc_id: draft.vc.default_borrow}
    builder = JobBuilder(now, names, borrow, {draft.user_id: user}, nodes, ties)
    firm = builder.firm([(row, facts)])
    job = builder.job(row, facts, facts.tasks, needs.after[NEWEST], preemptible=row.pk not in firm)
    if away := builder.place(facts)[1]:
        return away
    return job._replace(id=DRAFT, order_id=NEWEST)


def _row_of(draft: Job) -> JobRow:
    same = ("vc_id", "user_id", "state", "priority", "gang", "paused", "queue_ms", "led", "kept", "not_before")
    columns = {name: getattr(draft, name) for name in same}
    return JobRow(pk=0, stamp="", avoid_nodes=NONE_AVOIDED, waiting_code="", waiting_at=None, **columns)

"""Applies a plan to rows and orders. Each decision is a short transaction that checks the world is still as the plan
saw it; if not, it is skipped and decided again by the next cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from typing import TypeVar
from uuid import UUID

import scheduling
from portal.common.prepared import Among, Prepared
from portal.hardware.services.generations import orders_together
from portal.jobs.models import Job
from portal.jobs.services.allocation import job_demote, job_move_cells, job_promote
from portal.jobs.services.claims import claims_release
from portal.jobs.services.host_network import host_network_hold
from portal.jobs.services.images import images_hold
from portal.jobs.services.placement import Leaf, Overtaken, Placed
from portal.jobs.services.preempt import Preempting, Taken, jobs_preempt
from portal.jobs.services.start import Starting, attempts_start
from portal.jobs.services.storages import storages_hold
from portal.jobs.services.words import NAMED
from portal.parking.services.moves import parked_check, tasks_resume
from portal.queue.services.waits import waits_due, waits_write
from portal.scheduler.guard import Guard
from portal.scheduler.ports import OTHER_REASONS, PORTS, PortShortages, ports_told
from portal.scheduler.reservations import reservations_write
from portal.scheduler.rights import Turn, turns
from portal.scheduler.snapshot import Loaded
from portal.scheduler.snapshot_jobs import tasks_read
from portal.scheduler.waits import waits_told

TOGETHER = 100
"""Jobs started, or preempted for, in one transaction: more would hold their rows locked too long."""

T = TypeVar("T")
A = TypeVar("A", scheduling.Preempt, scheduling.Start)


@dataclass(slots=True)
class Applied:
    """A plan's outcome."""

    started: int = 0
    preempted: int = 0
    promoted: int = 0
    demoted: int = 0
    skipped: int = 0
    reasons: int = 0

    @property
    def well(self) -> bool:
        """Whether anything was carried out, or nothing had to be. A decision is overtaken now and then; a scheduler
        whose every decision always is stands still."""
        return not self.skipped or any((self.started, self.preempted, self.promoted, self.demoted))


def apply(*, plan: scheduling.Plan, loaded: Loaded, ports: PortShortages, now: datetime) -> Applied:
    """Carry out the plan in its intended order. Nodes found to have too few ports are noted in ``ports``."""
    return _Applying(loaded, ports, now).apply(plan)


class _Applying:
    def __init__(self, loaded: Loaded, ports: PortShortages, now: datetime) -> None:
        self.loaded, self.ports, self.now = loaded, ports, now
        self.guard = Guard(loaded.nodes, loaded.versions)
        self.running = {running.job.id: running for running in loaded.snapshot.running}
        self.tasks: dict[tuple[str, str, int], int] = {}
        self.turns: dict[str, Turn] = {}
        self.moved: set[str] = set()

    def apply(self, plan: scheduling.Plan) -> Applied:
        answered = [one.job.id for one in plan.starts] + [one.job.id for one in plan.preemptions]
        answered += [one.job for one in plan.promotions]
        self.tasks = tasks_read([self.loaded.jobs[job] for job in answered])
        self.turns = turns(plan, self.running)
        starts, preemptions = self._allowed(plan.starts), self._allowed(plan.preemptions)
        with orders_together():
            # 1. Stale and unneeded claims: releasing them only makes room.
            self._release((*plan.releases,), stale=self.loaded.claims.stale)
            # 2. Demotions in place. Jobs that get other cells of the quota at once lose nothing; they come last,
            #    since others may be demoted for them.
            moving = {job for job, turn in self.turns.items() if turn.moved}
            demoted = [self._fall(one) for one in sorted(plan.demotions, key=lambda one: one.job in moving)]
            # 3. Preemptions, starts, and promotions into the quota, perhaps into cells that these have left.
            preempted = self._together(preemptions, self._preempt)
            started = self._together(starts, self._start)
            promoted = [self._promote(one) for one in plan.promotions]
        # 4. State for the next plan, and reasons for people.
        reservations_write(jobs=[self.loaded.jobs[one] for one in plan.reservations], read=self.loaded.reserved)
        taking = {one.job.id for one, done in zip(preemptions, preempted, strict=True) if done}
        for error in self.guard.no_ports:
            self.ports.note(error=error, now=self.now)
        begun = {self.loaded.jobs[one.job.id] for one, done in zip(starts, started, strict=True) if done}
        reasons = self._tell([wait for wait in plan.waits if wait.job.id not in taking], begun)
        every = [*demoted, *promoted, *preempted, *started]
        return Applied(
            started=sum(started), preempted=sum(preempted), promoted=promoted.count(True),
            demoted=demoted.count(True), skipped=every.count(False), reasons=reasons,
        )  # fmt: skip

    def _allowed(self, answers: Sequence[A]) -> list[A]:
        """Drops jobs whose images may no longer run, or that may no longer use their storages or the host network; a
        parked one runs already."""
        jobs = [job for one in answers if (job := self.loaded.jobs[one.job.id]) not in self.loaded.parked]
        held = frozenset[int]()
        for hold in (images_hold, storages_hold, host_network_hold):
            held |= hold(jobs=[job for job in jobs if job not in held], now=self.now)
        return [one for one in answers if self.loaded.jobs[one.job.id] not in held]

    def _tell(self, waits: Sequence[scheduling.Wait], begun: Collection[int]) -> int:
        """Store the reasons that are due; preemptors were told when they claimed their GPUs."""
        loaded = self.loaded
        codes = {loaded.jobs[wait.job.id]: str(wait.reason.code) for wait in waits}
        codes |= {job: held.code for job, held in loaded.held_back.items()}
        short = {
            job: found
            for job, found in self.ports.current(now=self.now).items()
            if job in loaded.told and job not in begun and codes.get(job) not in OTHER_REASONS
        }
        codes |= dict.fromkeys(short, PORTS)
        due = waits_due(codes=codes, told=loaded.told, now=self.now)
        other = short.keys() | loaded.held_back.keys()
        told = waits_told([wait for wait in waits if loaded.jobs[wait.job.id] not in other], loaded, due)
        told += [ports_told(job=job, short=found) for job, found in short.items() if job in due]
        return waits_write(waits=told, now=self.now)

    def _release(self, leaves: Iterable[str], stale: Iterable[int] = ()) -> None:
        rows = [self.loaded.claims.rows[leaf] for leaf in leaves if leaf in self.loaded.claims.rows]
        if gone := [*rows, *stale]:
            claims_release(claims=gone)

    def _fall(self, demotion: scheduling.Demotion) -> bool | None:
        """None: it keeps its guarantee, in other cells. If these are not free yet, it is demoted until they are."""
        turn = self.turns[demotion.job]
        if turn.moved and self._move(demotion, turn):
            self.moved.add(demotion.job)
            return True if turn.lost else None
        return self._demote(demotion)

    def _move(self, demotion: scheduling.Demotion, turn: Turn) -> bool:
        job = self.loaded.jobs[demotion.job]

        def work() -> None:
            job_move_cells(job=_row(job), placed=self._placed(demotion.job, turn.moved))
            if turn.lost:
                self._borrowed([demotion.job], demotion.cause, without=[one.task for one in turn.moved])

        touched = self._nodes_of([demotion.job])
        return self.guard.carry_out(f"move of job {job} to other cells", work, jobs=[job], touched=touched)

    def _demote(self, demotion: scheduling.Demotion) -> bool:
        job = self.loaded.jobs[demotion.job]
        return self.guard.carry_out(
            f"demotion of job {job}",
            lambda: self._borrowed([demotion.job], demotion.cause),
            jobs=[job],
            touched=self._nodes_of([demotion.job]),
        )

    def _borrowed(self, jobs: Iterable[str], cause: str, without: Collection[scheduling.TaskRef] = ()) -> None:
        """Put these jobs on loan, all but these tasks; in the caller's transaction."""
        by = self.loaded.jobs.get(cause)
        for job in jobs:
            job_demote(
                job=_row(self.loaded.jobs[job]),
                task_attempts=[
                    self._attempt(job, task.placement.task)
                    for task in self._tasks(job)
                    if task.placement.task not in without
                ],
                cause=cause,
                by=_row(by) if by else None,
                now=self.now,
            )

    def _promote(self, promotion: scheduling.Promotion) -> bool | None:
        """None: its tasks have moved already and were never demoted."""
        job, placements = self.loaded.jobs[promotion.job], promotion.placements
        if promotion.job in self.moved:
            gained = self.turns[promotion.job].gained
            placements = tuple(place for place in placements if place in gained)
            if not placements:
                return None

        def work() -> None:
            job_promote(job=_row(job), placed=self._placed(promotion.job, placements), now=self.now)

        nodes = {place.node for place in placements}
        return self.guard.carry_out(f"promotion of job {job}", work, jobs=[job], touched=nodes)

    def _together(self, answers: Sequence[A], carry_out: Callable[[Sequence[A]], bool]) -> list[bool]:
        """Carry out answers in order; those that take nothing from third parties are batched."""
        done: list[bool] = []
        for alone, group in groupby(answers, key=lambda one: bool(one.demotes or one.releases)):
            for some in batched(group, 1 if alone else TOGETHER):
                done += _halving(some, carry_out)
        return done

    def _preempt(self, preempts: Sequence[scheduling.Preempt]) -> bool:
        """Preempts all or none."""
        jobs = [self.loaded.jobs[preempt.job.id] for preempt in preempts]
        victims = [[self._taken(victim) for victim in preempt.victims] for preempt in preempts]

        def work() -> None:
            for preempt in preempts:
                self._make_way(preempt)
            rows = Job.objects.select_related("user", "vc").only("priority", *NAMED).in_bulk(jobs)
            self._refuse_other(preempts, rows)
            parked_check(jobs=self.loaded.parked.intersection(jobs))
            placed = [self._placed(preempt.job.id, preempt.placements) for preempt in preempts]
            every = zip(jobs, placed, victims, strict=True)
            wants = [
                Preempting(rows[job], places, ends, parked=job in self.loaded.parked) for job, places, ends in every
            ]
            jobs_preempt(wants=wants, now=self.now)

        touched = {node for one in preempts for victim in one.victims for node in self._nodes_of_victim(victim)}
        return self.guard.carry_out(
            f"preemption for jobs {', '.join(map(str, jobs))}",
            work,
            jobs=[*jobs, *(one.job_id for some in victims for one in some), *self._demoted(preempts)],
            placed_on=self._goes_to(preempts, parked=False),
            touched=touched
            | self._goes_to(preempts, parked=True)
            | {node for preempt in preempts for node in self._nodes_of(preempt.demotes)},
        )

    def _refuse_other(self, preempts: Sequence[scheduling.Preempt], rows: Mapping[int, Job]) -> None:
        """Raises Overtaken if a preemptor's team or priority, or a victim's priority, is no longer what the plan was
        based on."""
        ends = {one.job: self.loaded.jobs[one.job] for preempt in preempts for one in preempt.victims}
        now = dict(Job.objects.filter(pk__in=ends.values()).order_by().values_list("pk", "priority"))
        taking = all(_as_planned(rows[self.loaded.jobs[one.job.id]], one.job) for one in preempts)
        if not taking or any(now[row] != self.running[victim].job.priority for victim, row in ends.items()):
            raise Overtaken

    def _start(self, starts: Sequence[scheduling.Start]) -> bool:
        """Starts all or none."""
        jobs = [self.loaded.jobs[start.job.id] for start in starts]

        def work() -> None:
            for start in starts:
                self._make_way(start)
            rows = {row.pk: row for row in _STARTED(jobs=jobs)}
            if not all(_as_planned(rows[job], start.job) for job, start in zip(jobs, starts, strict=True)):
                raise Overtaken
            placed = [tuple(self._placed(start.job.id, start.placements)) for start in starts]
            every, parked = list(zip(jobs, placed, strict=True)), self.loaded.parked
            back = [(job, place) for job, places in every if job in parked for place in places]
            tasks_resume(starts=back, now=self.now)
            made = [Starting(rows[job], places) for job, places in every if job not in parked]
            attempts_start(starts=made, now=self.now)

        return self.guard.carry_out(
            f"start of jobs {', '.join(map(str, jobs))}",
            work,
            jobs=[*jobs, *self._demoted(starts)],
            placed_on=self._goes_to(starts, parked=False),
            touched=self._goes_to(starts, parked=True)
            | {node for start in starts for node in self._nodes_of(start.demotes)},
        )

    def _goes_to(self, answers: Iterable[scheduling.Preempt | scheduling.Start], *, parked: bool) -> set[str]:
        """The nodes of their placements: of jobs that are parked there, so that the node need take no new task, or of
        the others."""
        there = self.loaded.parked
        mine = (one for one in answers if (self.loaded.jobs[one.job.id] in there) is parked)
        return {place.node for one in mine for place in one.placements}

    def _demoted(self, answers: Iterable[scheduling.Preempt | scheduling.Start]) -> list[int]:
        return [row for answer in answers for row in self._rows(answer.demotes)]

    def _make_way(self, answer: scheduling.Preempt | scheduling.Start) -> None:
        """Applies what others lose by it: claims, and their guarantee."""
        self._release(answer.releases)
        self._borrowed(answer.demotes, answer.job.id)

    # Engine ids -> rows

    def _rows(self, jobs: Iterable[str]) -> list[int]:
        return [self.loaded.jobs[job] for job in jobs]

    def _tasks(self, job: str) -> tuple[scheduling.RunningTask, ...]:
        running = self.running.get(job)
        return running.tasks if running else ()

    def _attempt(self, job: str, task: scheduling.TaskRef) -> UUID:
        """A placed task's attempt."""
        return UUID(self.loaded.attempts[(job, *task)])

    def _nodes_of(self, jobs: Iterable[str]) -> set[str]:
        """Nodes of the jobs' placed tasks."""
        return {task.placement.node for job in jobs for task in self._tasks(job)}

    def _nodes_of_victim(self, victim: scheduling.Victim) -> set[str]:
        """Nodes where tasks end: all of a gang, unless only extra tasks are named, else those named."""
        running, wanted = self.running.get(victim.job), set(victim.tasks)
        whole = running is not None and running.job.gang and not all(map(running.job.is_extra, wanted))
        return {task.placement.node for task in self._tasks(victim.job) if whole or task.placement.task in wanted}

    def _taken(self, victim: scheduling.Victim) -> Taken:
        return Taken(
            job_id=self.loaded.jobs[victim.job],
            task_attempts=tuple(self._attempt(victim.job, task) for task in victim.tasks),
            grace_s=-(-victim.grace_ms // 1000),
        )

    def _placed(self, job: str, placements: Iterable[scheduling.TaskPlacement]) -> list[Placed]:
        loaded = self.loaded
        return [
            Placed(
                task_id=self.tasks[(job, *place.task)],
                role=place.task.role,
                index=place.task.index,
                node_id=loaded.nodes[place.node],
                cpu_milli=place.cpu_milli,
                memory_mb=place.memory_mb,
                leaves=tuple(
                    Leaf(loaded.leaves[use.leaf], use.virtual_cell or "", str(use.standing)) for use in place.leaves
                ),
            )
            for place in placements
        ]


_STARTED = Prepared(
    lambda: (
        Job.objects.filter(Among("id", "jobs"))
        .order_by()
        .select_related("vc")
        .only("user_id", "vc__name", "gang", "priority", "spec", "submitted_at")
    )
)


def _as_planned(row: Job, job: scheduling.Job) -> bool:
    """Whether the job still has the team and the priority that the plan gave it cells by."""
    return (row.vc.name, row.priority) == (job.vc, job.priority)


def _row(job: int) -> Job:
    return Job.objects.select_related("user", "vc").get(pk=job)


def _halving(answers: Sequence[A], carry_out: Callable[[Sequence[A]], bool]) -> list[bool]:
    """Tries all together; if one was overtaken, each half by itself."""
    if (done := carry_out(answers)) or len(answers) == 1:
        return [done] * len(answers)
    halves = answers[: len(answers) // 2], answers[len(answers) // 2 :]
    return [one for half in halves for one in _halving(half, carry_out)]


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yields the items in groups of this size; the last may be smaller."""
    rest = iter(items)
    while group := tuple(islice(rest, size)):
        yield group

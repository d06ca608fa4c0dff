"""Finished jobs with all that hangs on them: attempts, containers, the GPUs they held, events, preemptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from random import Random
from uuid import UUID

from django.db import transaction

from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from portal.accounts.models import User
from portal.hardware.models import Gpu
from portal.jobs import wordings
from portal.jobs.exits import CAUSES, verdict
from portal.jobs.models import Standing
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState
from tests.benchmarks.filling.drafts import A_NAME, Draft, Drafts, submitted
from tests.benchmarks.filling.rows import Rows
from tests.benchmarks.filling.sizes import NAMES, NODE_GPUS, Shape, Sizes
from tests.benchmarks.filling.tables import json_of, loading, sequences_settle, statistics_learn

BATCH = 5000
"""Jobs that are written at a time."""

SHAPES = (Shape(1), Shape(2), Shape(4), Shape(8), Shape(1, 4), Shape(8, 2))
SHAPES_WEIGHED = (55, 15, 10, 12, 5, 3)
PRIORITIES = (10, 10, 10, 10, 100)
PREEMPTED = 0.03
"""Part of the jobs whose first attempt had to make room for another."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: the state of its job and tasks, and what the container says of it."""

    state: str
    task: str
    reason: str
    cause: str
    code: int | None
    stop: str = ""


SUCCEEDED = Ending(JobState.SUCCEEDED, TaskState.SUCCEEDED, EndReason.SUCCEEDED, Cause.EXITED, 0)
FAILED = Ending(JobState.FAILED, TaskState.FAILED, EndReason.FAILED, Cause.EXITED, 1)
OUT_OF_MEMORY = Ending(JobState.FAILED, TaskState.FAILED, EndReason.FAILED, Cause.OOM, 137)
STOPPED = Ending(JobState.STOPPED, TaskState.STOPPED, EndReason.STOPPED, Cause.STOPPED, 143, StopReason.USER)
TAKEN = Ending(JobState.WAITING, TaskState.WAITING, EndReason.PREEMPTED, Cause.STOPPED, 143, StopReason.PREEMPTED)
ENDINGS = (SUCCEEDED, FAILED, OUT_OF_MEMORY, STOPPED)
ENDINGS_WEIGHED = (70, 17, 3, 10)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task ran: the node by id and name, and the GPUs by id."""

    node: int
    name: str
    leaves: tuple[int, ...]


class Past:
    """Makes the finished jobs, oldest first; the same ones for the same seed."""

    def __init__(self, sizes: Sizes, drafts: Drafts, now: datetime) -> None:
        self._sizes, self._drafts, self._rng, self._rows = sizes, drafts, Random(sizes.seed), Rows()
        self._shapes = [shape for shape in SHAPES if shape.gpus * shape.tasks <= min(sizes.vc_gpus, sizes.gpus)]
        self._weights = SHAPES_WEIGHED[: len(self._shapes)]
        self._vcs = list(drafts.members)
        self._nodes = _places()
        self._step = timedelta(days=sizes.days) / max(sizes.finished, 1)
        self._end = now - timedelta(hours=12)

    def make(self, advance: Callable[[int], None]) -> None:
        """All of them or none. ``advance`` is told how many are written."""
        with transaction.atomic(), loading():
            for first in range(0, self._sizes.finished, BATCH):
                count = min(BATCH, self._sizes.finished - first)
                for number in range(first, first + count):
                    self._job(self._end - self._step * (self._sizes.finished - number))
                self._rows.write()
                advance(count)
        sequences_settle()
        statistics_learn()

    def _job(self, submitted: datetime) -> None:
        rng, rows = self._rng, self._rows
        vc = self._vcs[min(int(rng.expovariate(3 / len(self._vcs))), len(self._vcs) - 1)]
        members = self._drafts.members[vc]
        user = members[min(int(rng.expovariate(4 / len(members))), len(members) - 1)]
        draft = self._drafts.get(vc, rng.choices(self._shapes, self._weights)[0])
        job = Told(rows, draft, user, rng.choice(NAMES), self._drafts, rng)
        waited = timedelta(seconds=rng.expovariate(1 / 600))
        ending = rng.choices(ENDINGS, ENDINGS_WEIGHED)[0]
        job.submitted(submitted)
        at = submitted + waited
        if rng.random() < PREEMPTED and rows.jobs > 1:
            at = job.attempt(at, self._runs_for(), TAKEN, self._placed(draft.shape))
            at += timedelta(seconds=rng.expovariate(1 / 1200))
        job.ended(submitted, job.attempt(at, self._runs_for(), ending, self._placed(draft.shape)), ending)

    def _runs_for(self) -> timedelta:
        return timedelta(seconds=min(self._rng.lognormvariate(7.5, 1.6), 11 * 3600))

    def _placed(self, shape: Shape) -> list[Place]:
        rng, places = self._rng, []
        for _ in range(shape.tasks):
            node, name, gpus = rng.choice(self._nodes)
            first = rng.randrange(NODE_GPUS // shape.gpus) * shape.gpus
            places.append(Place(node, name, tuple(gpus[first : first + shape.gpus])))
        return places


def _places() -> list[tuple[int, str, list[int]]]:
    """The nodes with their GPUs, in the order of their slots."""
    found: dict[int, tuple[int, str, list[int]]] = {}
    rows = Gpu.objects.order_by("node__name", "slot").values_list("node_id", "node__name", "pk")
    for node, name, gpu in rows:
        found.setdefault(node, (node, name, []))[2].append(gpu)
    return list(found.values())


class Told:
    """One job, told from its submission to its end."""

    def __init__(self, rows: Rows, draft: Draft, user: User, name: str, drafts: Drafts, rng: Random) -> None:
        self._rows, self._draft, self._user, self._name, self._rng = rows, draft, user, name, rng
        self._run = drafts.run(user, name)
        self._label = f"{user.username}/{name}#{self._run}"
        self._id, self._role, self._tasks = rows.ids_for_job(draft.shape.tasks)
        self._attempts = 0
        self._started: datetime | None = None
        self._message = ""

    def submitted(self, at: datetime) -> None:
        """The job file came."""
        self._rows.event(self._id, at, "submitted", submitted(self._label, self._draft), actor=self._user.username)

    def attempt(self, at: datetime, lasted: timedelta, ending: Ending, places: Sequence[Place]) -> datetime:
        """One run of it, from its placement on; when it ended."""
        self._attempts += 1
        number, rows = self._attempts, self._rows
        key = rows.id_of_attempt()
        began, over = at + timedelta(seconds=20), at + timedelta(seconds=20) + lasted
        rows.event(self._id, at, "starting", wordings.STARTING(number=number))
        names, tasks = sorted({place.name for place in places}), wordings.TASKS(number=len(places))
        rows.event(self._id, at, "placed", wordings.PLACED(number=number, tasks=tasks, nodes=names), attempt=key)
        message = self._said(ending, places)
        runs = [(task, place, rows.uuid(self._rng)) for task, place in zip(self._tasks, places, strict=True)]
        for index, (task, place, run) in enumerate(runs):
            self._container(run, key, task, place, (at, began, over), ending, message)
            self._prepared(run, key, index, place, at, began)
        rows.event(self._id, began, "attempt_running", wordings.ATTEMPT_RUNS(number=number), attempt=key)
        rows.event(self._id, began, "running", wordings.RUNS(job=self._label))
        rows.event(self._id, over, f"ending_{ending.reason}", message, attempt=key)
        end = wordings.ENDED_WITH(code=ending.code, cause=CAUSES[Cause(ending.cause)]())
        for index, (_, place, run) in enumerate(runs):
            words = wordings.TASK_ON(task=f"worker/{index}", node=place.name, why=end)
            rows.event(self._id, over, "task_terminated", words, attempt=key, task=run)
        rows.event(self._id, over, "attempt_ended", wordings.ATTEMPT_ENDED(number=number, why=message), attempt=key)
        rows.attempts.add(
            key, self._id, number, AttemptState.ENDED, at, began, over, ending.reason, json_of(message), ending.code,
            rows.digests,
        )  # fmt: skip
        self._started, self._message = self._started or began, message
        if ending is TAKEN:
            rows.event(self._id, over, "requeued", wordings.REQUEUED(why=message))
            other = max(rows.first_job, self._id - self._rng.randrange(1, 2000))
            noticed = over - timedelta(seconds=30)
            rows.preemptions.add(other, key, len(runs), self._draft.gpu_count, True, noticed, over)
        return over

    def _said(self, ending: Ending, places: Sequence[Place]) -> str:
        tasks = len(places)
        if ending is SUCCEEDED:
            return wordings.ENOUGH_DONE(number=tasks, instances=tasks, role="worker")
        if ending is STOPPED:
            return wordings.STOPPED_BY(who=self._user.username)
        if ending is TAKEN:
            return wordings.PREEMPTED(job="another job", why=wordings.OWED_GPUS())
        why = verdict(ending.cause, ending.code).sentence
        return wordings.TASK_FAILED(task="worker/0", node=places[0].name, why=why)

    def _container(
        self,
        run: UUID,
        attempt: int,
        task: int,
        place: Place,
        times: tuple[datetime, datetime, datetime],
        ending: Ending,
        message: str,
    ) -> None:
        at, began, over = times
        shape, rows = self._draft.shape, self._rows
        rows.runs.add(
            run, task, attempt, self._attempts, place.node, Phase.REMOVE, ContainerState.TERMINATED,
            4000 * shape.gpus, 16384 * shape.gpus, rows.ports, rows.digest, run.hex, at, began, began, over, over, over,
            ending.stop, json_of(message if ending.stop else ""), ending.cause, ending.code, True,
        )  # fmt: skip
        self._used(run, len(place.leaves), began, over)
        guaranteed = ending is not TAKEN
        for leaf in place.leaves:
            cell = f"{self._draft.vc.name}/{leaf}" if guaranteed else ""
            standing = Standing.GUARANTEED if guaranteed else Standing.BORROWED
            rows.allocations.add(run, leaf, cell, standing, at, at, over)

    def _used(self, run: UUID, gpus: int, began: datetime, over: datetime) -> None:
        """As its readings would have summed up."""
        utilisation, idle = self._rng.betavariate(5, 2), self._rng.random() ** 4
        while began < over:
            night = datetime.combine(began.date() + timedelta(days=1), time.min, began.tzinfo)
            ms = gpus * (min(over, night) - began) // timedelta(milliseconds=1)
            self._rows.measured.add(run, began.date(), ms, int(ms * utilisation), int(ms * idle * (1 - utilisation)))
            began = night

    def _prepared(self, run: UUID, attempt: int, index: int, place: Place, at: datetime, began: datetime) -> None:
        second = timedelta(seconds=1)
        for when, state in (
            (at + second, wordings.PULLING),
            (began - second, wordings.PREPARED),
            (began, wordings.TASK_RUNS),
        ):
            words = wordings.TASK_ON(task=f"worker/{index}", node=place.name, why=state())
            self._rows.event(self._id, when, state.code, words, attempt=attempt, task=run)

    def ended(self, submitted: datetime, over: datetime, ending: Ending) -> None:
        """The job is over: now all of its row is known."""
        draft, rows = self._draft, self._rows
        rows.event(self._id, over, ending.state, self._message)
        rows.jobs_table.add(
            self._id, self._user.pk, draft.vc.pk, self._name, self._run, ending.state, self._rng.choice(PRIORITIES),
            draft.spec.replace(A_NAME, self._name), draft.config.replace(A_NAME, self._name), submitted, self._started,
            over, ending.reason, json_of(self._message), ending.code, self._attempts - 1,
        )  # fmt: skip
        role = draft.role
        rows.roles.add(
            self._role, self._id, 0, role.name, role.instances, role.gpus, role.cpu_milli, role.memory_mb,
            role.min_failed, role.min_succeeded, role.task_retry_count,
        )  # fmt: skip
        for index, task in enumerate(self._tasks):
            rows.tasks.add(task, self._role, self._id, index, ending.task)

"""Elastic jobs: each extra task is a job of its own for the engine, whose claim to its GPUs is the least of all.

Outside there is one job with all its tasks; `divide` takes a snapshot apart, and the engine's answers are put together
again by `whole_plan`. So neither placement nor preemption knows of elastic jobs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduling.model.job import OPPORTUNISTIC, Job, TaskRef, all_tasks
from scheduling.model.plan import Plan, Preempt, Start, Victim
from scheduling.model.snapshot import Claim, Running, RunningTask, Snapshot

EXTRA = OPPORTUNISTIC - 1
"""The priority of extra tasks: below that of all jobs."""

_BEFORE_TASK = "\x1f"
"""Stands in the name of an extra task behind that of its job; no job's name has it."""


def is_elastic(job: Job) -> bool:
    """Whether one of its roles is elastic."""
    for role in job.roles:  # noqa: SIM110 - a generator takes longer, and this is asked for each row
        if role.least is not None:
            return True
    return False


def gang_of(job: Job) -> Job:
    """The job without its waiting extra tasks; itself where there are none."""
    if not is_elastic(job):
        return job
    gang = tuple(task for task in job.wanted if not job.is_extra(task))
    return job if len(gang) == len(job.wanted) else job.wanting(gang)


def whole_gang(job: Job) -> Job:
    """The same, wanting all of its gang where only extra tasks wait."""
    gang = gang_of(job)
    if gang.wanted or not job.wanted:
        return gang
    whole = tuple(task for task in all_tasks(job.roles) if not job.is_extra(task))
    return job.wanting(whole) if whole else job


def gang_size(job: Job) -> int:
    """How many tasks its gang has."""
    return sum(role.count if role.least is None else role.least for role in job.roles)


def gang_gpus(job: Job) -> int:
    """How many GPUs its gang has."""
    return sum(role.gpus * (role.count if role.least is None else role.least) for role in job.roles)


def extra_name(job_id: str, task: TaskRef) -> str:
    """The id under which the engine has this extra task."""
    return f"{job_id}{_BEFORE_TASK}{task.role}/{task.index}"


def whole_name(name: str) -> str:
    """The id of the job that a job, or an extra task, belongs to."""
    return name.partition(_BEFORE_TASK)[0]


def extra_job(job: Job, task: TaskRef, leaf_type: str | None = None) -> Job:
    """The extra task as a job that waits for a place on loan, on GPUs of this kind."""
    role = job.role(task.role)
    role = replace(role, least=None, pinned_cell=None, sku=leaf_type or role.sku)
    return Job(
        extra_name(job.id, task), job.vc, job.user, EXTRA, (role,), job.submitted_ms, job.order_id, (task,),
        grace_ms=job.grace_ms, avoid_nodes=job.avoid_nodes, only_nodes=job.only_nodes,
    )  # fmt: skip


# Snapshots


class Divided(NamedTuple):
    """A snapshot in which extra tasks that run are jobs of their own. `growing`: jobs by id, with their waiting extra
    tasks; `wholes`: those with running ones."""

    snapshot: Snapshot
    growing: dict[str, Job]
    wholes: dict[str, Job]


class Divider:
    """Takes snapshots apart. Of a row that is the same object as before the parts are the same, too."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Running, tuple[Running, ...]]] = {}
        self._gangs: dict[str, tuple[Job, Job]] = {}

    def divide(self, snapshot: Snapshot) -> Divided:
        """The parts; the snapshot itself where no job is elastic."""
        before, self._running = self._running, {}
        gangs_before, self._gangs = self._gangs, {}
        growing, wholes = dict[str, Job](), dict[str, Job]()
        running, waiting = list[Running](), list[Job]()
        for one in snapshot.running:
            if not is_elastic(one.job):
                running.append(one)
                continue
            known = before.get(one.job.id)
            rows = known[1] if known is not None and known[0] is one else tuple(_rows(one))
            self._running[one.job.id] = one, rows
            running += rows
            if len(rows) > 1 or rows[0].job.priority == EXTRA:
                wholes[one.job.id] = one.job
        for job in snapshot.waiting:
            if not is_elastic(job):
                waiting.append(job)
                continue
            same = gangs_before.get(job.id)
            gang = same[1] if same is not None and same[0] is job else gang_of(job)
            self._gangs[job.id] = job, gang
            if gang.wanted:
                waiting.append(gang)
            if gang is not job:
                growing[job.id] = job.wanting(extra_tasks(job))
        if not self._running and not self._gangs:
            return Divided(snapshot, growing, wholes)
        claims = _divided_claims(snapshot.claims, running) if wholes else snapshot.claims
        parts = replace(snapshot, running=tuple(running), waiting=tuple(waiting), claims=claims)
        return Divided(parts, growing, wholes)


def extra_tasks(job: Job) -> tuple[TaskRef, ...]:
    """Its waiting extra tasks, the lowest index first."""
    order = {role.name: number for number, role in enumerate(job.roles)}
    found = [task for task in job.wanted if job.is_extra(task)]
    return tuple(sorted(found, key=lambda task: (order[task.role], task.index)))


def _rows(running: Running) -> Iterable[Running]:
    gang = tuple(task for task in running.tasks if not running.job.is_extra(task.placement.task))
    if gang:
        yield Running(running.job, gang)
    for task in running.tasks:
        if running.job.is_extra(task.placement.task):
            yield extra_row(running.job, task)


def extra_row(job: Job, task: RunningTask) -> Running:
    """A running extra task as a job of its own."""
    return Running(extra_job(job, task.placement.task).wanting(()), (task,))


def _divided_claims(claims: tuple[Claim, ...], running: Iterable[Running]) -> tuple[Claim, ...]:
    """The claims with the names of the extra tasks that are on their leaves."""
    extras = (one for one in running if one.job.priority == EXTRA)
    at = {use.leaf: one.job.id for one in extras for task in one.tasks for use in task.placement.leaves}
    return tuple(
        claim._replace(victim=at[claim.leaf])
        if claim.leaf in at and claim.victim == whole_name(at[claim.leaf])
        else claim
        for claim in claims
    )


def whole_running(running: Mapping[str, Running], wholes: Mapping[str, Job]) -> tuple[Running, ...]:
    """Running jobs with their extra tasks, by id."""
    tasks: dict[str, list[RunningTask]] = {}
    for name, one in running.items() if wholes else ():
        if one.job.priority == EXTRA:
            tasks.setdefault(whole_name(name), []).extend(one.tasks)
    found = []
    for name in sorted({*running, *wholes}):
        mine = running.get(name)
        if name in wholes:
            every = [*(mine.tasks if mine is not None else ()), *tasks.get(name, ())]
            every.sort(key=lambda task: task.placement.task)
            found.append(Running(mine.job if mine is not None else wholes[name], tuple(every)))
        elif mine is not None and mine.job.priority != EXTRA:
            found.append(mine)
    return tuple(found)


def whole_waiting(waiting: Mapping[str, Job], growing: Mapping[str, Job]) -> tuple[Job, ...]:
    """Waiting jobs with their extra tasks, by id."""
    found = []
    for name in sorted({*waiting, *growing}):
        gang, extra = waiting.get(name), growing.get(name)
        if gang is not None and extra is not None:
            found.append(gang.wanting(tuple(sorted((*gang.wanted, *extra.wanted)))))
        else:
            found += [one for one in (gang, extra) if one is not None]
    return tuple(found)


def whole_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims with the victims as they are outside."""
    return tuple(
        one._replace(victim=whole_name(one.victim)) if one.victim is not None and _BEFORE_TASK in one.victim else one
        for one in claims
    )


def without_extras(snapshot: Snapshot) -> Snapshot:
    """The same where the GPUs of extra tasks idle, and none of these waits."""
    rows = [row for one in snapshot.running for row in (_rows(one) if is_elastic(one.job) else (one,))]
    running = tuple(row for row in rows if row.job.priority != EXTRA)
    if len(running) == len(rows) and not any(map(is_elastic, snapshot.waiting)):
        return snapshot
    taken = {use.leaf for one in running for task in one.tasks for use in task.placement.leaves}
    return replace(
        snapshot,
        running=running,
        waiting=tuple(gang for gang in map(gang_of, snapshot.waiting) if gang.wanted),
        claims=tuple(one if one.leaf in taken else one._replace(victim=None) for one in snapshot.claims),
    )


# Answers


def parts_of(start: Start) -> list[Start]:
    """The start of a job as those of its gang and of each extra task."""
    job = start.job
    extras = [place for place in start.placements if job.is_extra(place.task)] if is_elastic(job) else []
    if not extras:
        return [start]
    gang = tuple(place for place in start.placements if not job.is_extra(place.task))
    alone = [Start(extra_job(job, place.task), (place,), start.at_ms) for place in extras]
    return [*([start._replace(placements=gang)] if gang else ()), *alone]


def whole_plan(plan: Plan, growing: Mapping[str, Job]) -> Plan:
    """The plan for the jobs as they are outside: those of `growing` start further tasks."""
    extras: dict[str, list[Start]] = {}
    for start in plan.starts:
        if start.job.priority == EXTRA:
            extras.setdefault(whole_name(start.job.id), []).append(start)
    starts = [start for start in plan.starts if start.job.priority != EXTRA]
    for name, parts in extras.items():
        starts.append(Start(growing[name], tuple(place for one in parts for place in one.placements), plan.at_ms))
    return replace(plan, starts=tuple(starts), preemptions=tuple(map(whole_preempt, plan.preemptions)))


def whole_preempt(preempt: Preempt) -> Preempt:
    """The same with the victims as they are outside."""
    if not any(_BEFORE_TASK in victim.job for victim in preempt.victims):
        return preempt
    found: dict[str, Victim] = {}
    for victim in preempt.victims:
        name = whole_name(victim.job)
        tasks = (*(found[name].tasks if name in found else ()), *victim.tasks)
        found[name] = Victim(name, tuple(sorted(tasks)), victim.grace_ms)
    return preempt._replace(victims=tuple(found[name] for name in sorted(found)))

"""What is compared: the same jobs on the same hardware under four ways of sharing it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.diagnosis.feasible_at_submit import Refusal, refusals
from scheduling.engine import Engine
from scheduling.model.cluster import Cluster, FirstToPay, Order, Policy
from scheduling.model.job import Borrow, Job
from scheduling.simulator.clusters import POOL, alone, counted_in_gpus, undivided
from scheduling.simulator.elastic import Elastic, ElasticRule, halved, is_elastic
from scheduling.simulator.guests import GroupRule, Groups, SessionRule, Sessions
from scheduling.simulator.loop import Addition, Event, Loop, Outcome, restart_cost
from scheduling.simulator.parking import Parking, ParkRule
from scheduling.simulator.sampling import among
from scheduling.simulator.trace import DEFAULT_PRIORITY, Fault, TraceError, TraceJob


class Sharing(StrEnum):
    """How the hardware is shared.

    private: each virtual cluster alone on its own nodes; quota: on common nodes, nothing is lent;
    capacity: lending, preemption and promotion; fifo: one pool in which neither teams nor priorities count.
    """

    PRIVATE = "private"
    QUOTA = "quota"
    CAPACITY = "capacity"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True)
class Settings:
    """One simulation: how to share, in which order, and what a preemption costs.

    work_kept: a preempted job goes on for the price of a restart; else it begins anew.
    quota_in_gpus: shares are numbers of GPUs, whatever cells the cluster's quotas name.
    grace_ms: what a victim is given before it is gone.
    promotion: who runs on loan moves into its quota in its turn; else it stays on loan to its end.
    restart_cost: that price, in ms of run time by the job's GPUs.
    park, elastic, sessions, groups: what is added to the engine's sharing; each team alone is without them.
    """

    sharing: Sharing = Sharing.CAPACITY
    order: Order = Order.SUBMISSION
    backfill: bool = False
    work_kept: bool = True
    quota_in_gpus: bool = False
    grace_ms: int = 0
    promotion: bool = True
    restart_cost: Callable[[int], int] = restart_cost
    park: ParkRule | None = None
    elastic: ElasticRule | None = None
    sessions: SessionRule | None = None
    groups: GroupRule | None = None


NEVER_SAVED_MS = 1 << 62
"""Where all work of a victim is lost, all of it counts when victims are chosen."""


@dataclass(frozen=True, slots=True)
class World:
    """A cluster that an engine runs, and the jobs that go to it."""

    cluster: Cluster
    jobs: tuple[tuple[TraceJob, Job], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of every job, in the order of the trace, and all that happened, in the order of time."""

    outcomes: tuple[Outcome, ...]
    events: tuple[Event, ...]


def _nothing() -> None:
    """Nobody wants to know how far it is."""


def simulate(
    cluster: Cluster, trace: Sequence[TraceJob], settings: Settings, ended: Callable[[], None] = _nothing
) -> Result:
    """Run the trace to its end; `ended` is called as each job is over.

    Raises TraceError naming the jobs that could never run under this way of sharing.
    """
    made = list(worlds(cluster, trace, settings))
    faults = sorted((fault for world in made for fault in unfit(world)), key=lambda fault: fault.line)
    if faults:
        raise TraceError(faults)
    return _run(made, trace, settings, ended)


def compare(
    cluster: Cluster, trace: Sequence[TraceJob], settings: Settings, ended: Callable[[], None] = _nothing
) -> Result:
    """The same with each virtual cluster alone, to measure others by; jobs that could never run so are left out."""
    made = []
    settings = replace(settings, sharing=Sharing.PRIVATE, park=None, elastic=None, sessions=None, groups=None)
    for world in worlds(cluster, trace, settings):
        bad = {fault.line for fault in unfit(world)}
        made.append(replace(world, jobs=tuple(pair for pair in world.jobs if pair[0].line not in bad)))
    return _run(made, trace, settings, ended)


def _run(made: list[World], trace: Sequence[TraceJob], settings: Settings, ended: Callable[[], None]) -> Result:
    outcomes: dict[str, Outcome] = {}
    events: list[Event] = []
    for world in made:
        price = settings.restart_cost if settings.work_kept else None
        loop = Loop(Engine(world.cluster), world.jobs, restart_cost=price, ended=ended)
        loop.additions += _additions(loop, world, settings)
        outcomes.update((outcome.job.id, outcome) for outcome in loop.run())
        events += loop.events
    if len(made) > 1:
        events.sort(key=lambda event: event.at_ms)
    return Result(tuple(outcomes.get(job.id) or Outcome(job) for job in trace), tuple(events))


def _additions(loop: Loop, world: World, settings: Settings) -> Iterator[Addition]:
    """What the settings add to the engine's own sharing."""
    single = frozenset(job.id for job, _ in world.jobs if job.gpus == 1)
    if settings.park is not None:
        yield Parking(loop, settings.park)
    if settings.elastic is not None:
        names = frozenset(job.id for job, asked in world.jobs if _grows(job, asked, settings.elastic))
        yield Elastic(loop, settings.elastic, world.cluster, names)
    if settings.sessions is not None:
        chosen = frozenset(name for name in single if among(name, settings.sessions.share))
        yield Sessions(loop, settings.sessions, chosen, single - chosen)
    if settings.groups is not None:
        yield Groups(loop, settings.groups, single)


def worlds(cluster: Cluster, trace: Sequence[TraceJob], settings: Settings) -> Iterator[World]:
    """The clusters to run: one for each virtual cluster where it is alone, else one."""
    policy = Policy(
        order=settings.order,
        backfill=settings.backfill,
        lending=settings.sharing != Sharing.QUOTA,
        promotion=settings.promotion,
        first_to_pay=FirstToPay.SHARE if settings.work_kept else FirstToPay.LOSS,
        unsaved_cap_ms=Policy().unsaved_cap_ms if settings.work_kept else NEVER_SAVED_MS,
    )
    if settings.sharing == Sharing.PRIVATE:
        for vc in cluster.virtual_clusters:
            yield _world(alone(cluster, vc), [job for job in trace if job.vc == vc.id], settings, policy)
    elif settings.sharing == Sharing.FIFO:
        yield _world(undivided(cluster), trace, settings, policy)
    else:
        yield _world(cluster, trace, settings, policy)


def _world(cluster: Cluster, trace: Sequence[TraceJob], settings: Settings, policy: Policy) -> World:
    counted = counted_in_gpus(cluster) if settings.quota_in_gpus else cluster
    jobs = tuple((job, request(job, settings)) for job in trace)
    return World(replace(counted, policy=policy), jobs)


def request(job: TraceJob, settings: Settings) -> Job:
    """The job as the engine is asked for it."""
    pooled = settings.sharing == Sharing.FIFO
    lent = settings.sharing == Sharing.CAPACITY and not job.opportunistic
    asked = Job(
        job.id,
        POOL if pooled else job.vc,
        job.user,
        DEFAULT_PRIORITY if pooled else job.priority,
        job.roles,
        job.submit_ms,
        job.line,
        job.wanted,
        grace_ms=settings.grace_ms,
        borrow=Borrow.AUTO if lent else Borrow.NEVER,
    )
    return halved(asked) if settings.elastic is not None and _grows(job, asked, settings.elastic) else asked


def _grows(job: TraceJob, asked: Job, rule: ElasticRule) -> bool:
    return is_elastic(asked, job.gpus) and among(job.id, rule.share)


def unfit(world: World) -> Iterator[Fault]:
    """The jobs that could not run even with this world to themselves, with the numbers."""
    known: dict[object, tuple[Refusal, ...]] = {}
    for job, asked in world.jobs:
        key = (asked.vc, asked.roles, asked.opportunistic)
        if key not in known:
            known[key] = refusals(world.cluster, asked)
        for refusal in known[key]:
            yield Fault(job.line, "", f"asks for what can never run: {refusal.sentence}")

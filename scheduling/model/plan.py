"""What the engine answers. It decides; others apply (the habit of Determined's scheduler)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduling.model.job import Job, TaskPlacement, TaskRef


class Code(StrEnum):
    """Why a job waits, for machines.

    Of the reasons that the engine finds, the first in this order is the dominant one. Those after RESOURCES
    are words for what is known outside it: a reservation, a storage, an image, a lease.
    """

    PAUSED = "paused"
    PARKED = "parked"
    DEPENDENCY = "dependency"
    NO_NODE = "no_node"
    QUOTA = "quota"
    USER_LIMIT = "user_limit"
    BORROW_LIMIT = "borrow_limit"
    LEND_LIMIT = "lend_limit"
    ORDER = "order"
    FRAGMENTED = "fragmented"
    BAD_NODES = "bad_nodes"
    RESOURCES = "resources"
    LOANS_LOST = "loans_lost"
    RESERVED = "reserved"
    PREEMPTING = "preempting"
    STORAGE = "storage"
    PREPARING = "preparing"
    LEASE = "lease"


class Reason(NamedTuple):
    """The one dominant reason of a wait: a code, the numbers behind it, and a sentence for people."""

    code: Code
    numbers: Mapping[str, int | str]
    sentence: str


class Start(NamedTuple):
    """Start these tasks of the job now: all that wait (a gang), or those that fit.

    `demotes` are jobs that become borrowed by it (they allow lazy preemption), `releases` claims that others lose
    (by leaf).
    """

    job: Job
    placements: tuple[TaskPlacement, ...]
    at_ms: int
    demotes: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


class Victim(NamedTuple):
    """Tasks of a running job that must end, and its grace in ms."""

    job: str
    tasks: tuple[TaskRef, ...]
    grace_ms: int


class Preempt(NamedTuple):
    """Take the victims' cells for the job, which starts at `placements` when they are gone.

    Whoever applies it claims every leaf of `placements` for the job and orders the victims to end, in one
    step. `releases` are leaves that other jobs had claimed and lose by it (a claim on a leaf of `placements`
    is replaced): they have lower priority and are decided anew.
    """

    job: Job
    placements: tuple[TaskPlacement, ...]
    victims: tuple[Victim, ...]
    at_ms: int
    demotes: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


class Wait(NamedTuple):
    """The job (what of it does not start) waits, and why.

    `place` is its place, from 1, among the waiting jobs of its virtual cluster that want the same SKU;
    None where the answer is about the job alone or the job is not in the order.
    """

    job: Job
    reason: Reason
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Promotion:
    """A borrowed job moves into its quota where it is: its placements, now guaranteed."""

    job: str
    placements: tuple[TaskPlacement, ...]


@dataclass(frozen=True, slots=True)
class Demotion:
    """A guaranteed job is borrowed from now on; `cause` says by what (a job's id, or a change)."""

    job: str
    cause: str


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions of one cycle, each made as if those before it were carried out.

    The order of carrying out: `releases` (claims that nobody needs any more, by leaf), `demotions` (of jobs whose
    quota is gone), what the starts and preemptions release and demote (it may make room for any of them),
    `preemptions`, `starts`, then `promotions` (into virtual cells that a demotion may just have left). Tasks of a job
    that is in `demotions` and in `promotions` have lost their virtual cells and got others of the quota: in the end
    they keep their right. `reservations` replaces the snapshot's.
    """

    at_ms: int
    starts: tuple[Start, ...] = ()
    preemptions: tuple[Preempt, ...] = ()
    promotions: tuple[Promotion, ...] = ()
    demotions: tuple[Demotion, ...] = ()
    waits: tuple[Wait, ...] = ()
    releases: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()

    @property
    def answers(self) -> "tuple[Preempt | Start, ...]":
        """Preemptions and starts in the order of carrying out."""
        return (*self.preemptions, *self.starts)

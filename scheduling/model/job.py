"""What is asked for and what is given: jobs with their task roles, and the placement of a task."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

OPPORTUNISTIC = -1
"""The priority of jobs that run outside every quota."""


MINUTE_MS = 60_000
MOST_REST = 5
"""From so many lost loans on, nothing more is asked of GPUs than to have idled for 2^5 minutes."""
REST_FURTHEST_MS = (1 << MOST_REST) * MINUTE_MS


class Borrow(StrEnum):
    """Whether a guaranteed job may start on idle cells before its quota is free."""

    NEVER = "never"
    AUTO = "auto"


class Standing(StrEnum):
    """By what right a leaf cell is held: inside the quota, or on loan until its owner wants it."""

    GUARANTEED = "guaranteed"
    BORROWED = "borrowed"


class TaskRef(NamedTuple):
    """One task of a job: the role's name and the task's index in it."""

    role: str
    index: int  # type: ignore[assignment]  # the field is meant to hide tuple.index


@dataclass(frozen=True, slots=True)
class Role:
    """A task role: `count` equal tasks, each of `gpus` GPUs, CPU in milli-cores and memory in MB.

    `sku` None takes any SKU that the virtual cluster owns. For tasks without GPUs it names the node's SKU.
    `pinned_cell` and `affinity_group` are names of the job file. `least` of an elastic role: so many of its tasks are
    the gang, the first ones; the others are extra tasks, which run on GPUs that nobody else wants. None: not elastic.
    """

    name: str
    count: int
    gpus: int
    cpu_milli: int
    memory_mb: int
    sku: str | None = None
    pinned_cell: str | None = None
    affinity_group: str | None = None
    least: int | None = None


class Job(NamedTuple):
    """A job and those of its tasks that wait now (`wanted`); times are ms since the epoch or durations in ms.

    A gang wants all its tasks or none; a job that is not a gang may want some while others run.
    Order: higher `priority`, then earlier `submitted_ms`, then smaller `order_id`, then `id`. `led`: somebody gave it
    a place by hand: it comes before all others of its priority, such jobs by `submitted_ms`.
    `after` names jobs that must be over first: none of them may be finished, or the job waits for ever.
    `paused`: it starts nothing now, and keeps what it claims.
    `avoid_nodes` were at fault: they are used only where the other nodes have no place for it now.
    `loans_lost`: how often it was ended of late for others that took back what it had on loan.
    `only_nodes` None is every node. `warm_nodes` have its images already.
    `grow_from_ms`: no extra task of an elastic role starts before this moment (None: there is none to wait for).
    """

    id: str
    vc: str
    user: str
    priority: int
    roles: tuple[Role, ...]
    submitted_ms: int
    order_id: int
    wanted: tuple[TaskRef, ...]
    gang: bool = True
    time_limit_ms: int | None = None
    min_run_ms: int = 0
    grace_ms: int = 0
    lazy_preemption: bool = False
    preemptible: bool = True
    borrow: Borrow = Borrow.NEVER
    avoid_nodes: frozenset[str] = frozenset()
    only_nodes: frozenset[str] | None = None
    warm_nodes: frozenset[str] = frozenset()
    after: tuple[str, ...] = ()
    paused: bool = False
    led: bool = False
    loans_lost: int = 0
    grow_from_ms: int | None = None

    @property
    def opportunistic(self) -> bool:
        """Whether the job runs outside every quota."""
        return self.priority <= OPPORTUNISTIC

    @property
    def rest_ms(self) -> int:
        """For how long GPUs must have idled that are lent to it."""
        return (1 << min(self.loans_lost, MOST_REST)) * MINUTE_MS if self.loans_lost else 0

    def is_extra(self, task: TaskRef) -> bool:
        """Whether this is an extra task of an elastic role. KeyError when the job has no such role."""
        least = self.role(task.role).least
        return least is not None and task.index >= least

    def wanting(self, tasks: tuple[TaskRef, ...]) -> "Job":
        """The same job with these tasks waiting."""
        return Job._make((*self[:_WANTED], tasks, *self[_WANTED + 1 :]))

    def role(self, name: str) -> Role:
        """The role of this name; KeyError when the job has none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)


_WANTED = Job._fields.index("wanted")


def all_tasks(roles: tuple[Role, ...]) -> tuple[TaskRef, ...]:
    """Every task of these roles, in the order of the roles."""
    return tuple(TaskRef(role.name, index) for role in roles for index in range(role.count))


class LeafUse(NamedTuple):
    """A leaf cell in use: guaranteed in a virtual cell (its address), or borrowed (None)."""

    leaf: str
    virtual_cell: str | None
    standing: Standing


class TaskPlacement(NamedTuple):
    """A task's place: its node, its leaf cells there, its CPU (milli-cores) and memory (MB)."""

    task: TaskRef
    node: str
    leaves: tuple[LeafUse, ...]
    cpu_milli: int
    memory_mb: int

    @property
    def role(self) -> str:
        """The name of its role."""
        return self.task.role

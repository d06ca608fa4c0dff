"""Everything the engine knows, as plain data: `Engine.restore` reads it, `Engine.snapshot` writes it."""

from dataclasses import dataclass
from typing import NamedTuple

from scheduling.model.cluster import Cluster
from scheduling.model.job import Job, TaskPlacement, TaskRef
from scheduling.model.plan import Demotion


class RunningTask(NamedTuple):
    """A task that holds its place, since when (ms), and when its work was last saved (None: never).

    `leaving`: its end is ordered; it holds its cells until it is gone. `right_ms`: since when it holds them by its
    present right, after a promotion or demotion (None: since it started).
    """

    placement: TaskPlacement
    started_ms: int
    checkpoint_ms: int | None = None
    leaving: bool = False
    right_ms: int | None = None

    @property
    def on_loan(self) -> bool:
        """Whether it holds borrowed leaves."""
        return None in [address for _, address, _ in self.placement.leaves]

    @property
    def since_ms(self) -> int:
        """From when on what it uses counts as what it is now: inside the quota, or on loan."""
        return self.started_ms if self.right_ms is None else max(self.started_ms, self.right_ms)


class Running(NamedTuple):
    """A job with its placed tasks; a job that is not a gang may wait for others at the same time."""

    job: Job
    tasks: tuple[RunningTask, ...]


class Claim(NamedTuple):
    """A leaf cell kept for one task of a job (`claimant`) while the last holder (`victim`, None: gone) leaves it.

    The claims of a job are its placement: it starts there, in these virtual cells, when all victims are gone. Without a
    virtual cell the job will have the leaf on loan: a job that has a right to it takes it all the same.

    `parked`: the claimant's container is there, off its GPU; its CPU and memory stay taken. While the job is paused the
    leaf is lent; once it is not, whoever has the leaf on loan must leave. The claim holds on a faulty or cordoned node
    too, as running tasks do.
    """

    leaf: str
    claimant: str
    victim: str | None
    virtual_cell: str
    task: TaskRef
    parked: bool = False


class Freed(NamedTuple):
    """A leaf that was in use, and when (ms) it was given back last."""

    leaf: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the ended guaranteed tasks of a user took of one resource in the hour that begins at `hour_ms`.

    What running tasks took is known from their start.
    `amount` is in GPU, milli-core or MB milliseconds; `resource` is a SKU's name, "cpu" or "memory".
    """

    vc: str
    user: str
    resource: str
    hour_ms: int
    amount: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state between two decisions. Equal snapshots give equal plans, whatever led to them.

    `reservations` are the jobs that the last plan kept cells for, in its order; they stay first of their priority.
    `freed`: who lost loans of late is lent none of these until they have idled for long enough.
    """

    cluster: Cluster
    running: tuple[Running, ...] = ()
    waiting: tuple[Job, ...] = ()
    claims: tuple[Claim, ...] = ()
    demotions: tuple[Demotion, ...] = ()
    usage: tuple[Usage, ...] = ()
    reservations: tuple[str, ...] = ()
    freed: tuple[Freed, ...] = ()

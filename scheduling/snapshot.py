"""Everything the engine knows, as plain data: `Engine.restore` reads it, `Engine.snapshot` writes it."""

from dataclasses import dataclass

from scheduling.cells import Cluster
from scheduling.decisions import Demotion
from scheduling.jobs import Job, TaskPlacement


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that holds its place, since when (ms), and when its work was last saved (None: never)."""

    placement: TaskPlacement
    started_ms: int
    checkpoint_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A job with its placed tasks; a job that is not a gang may wait for others at the same time."""

    job: Job
    tasks: tuple[RunningTask, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A leaf cell kept for one job (`claimant`) while the last holder (`victim`, None: gone) leaves it."""

    leaf: str
    claimant: str
    victim: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a user took of one resource in the hour that begins at `hour_ms`.

    `amount` is in GPU, milli-core or MB milliseconds; `resource` is a SKU's name, "cpu" or "memory".
    """

    vc: str
    user: str
    resource: str
    hour_ms: int
    amount: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state between two decisions. Equal snapshots give equal plans, whatever led to them."""

    cluster: Cluster
    running: tuple[Running, ...] = ()
    waiting: tuple[Job, ...] = ()
    claims: tuple[Claim, ...] = ()
    demotions: tuple[Demotion, ...] = ()
    usage: tuple[Usage, ...] = ()

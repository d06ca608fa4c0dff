"""The cluster as the engine sees it, and how it is scheduled as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.model.description import Description
from scheduling.model.validate import contradictions, shortages


class Order(StrEnum):
    """Who comes first among equal priorities of a virtual cluster."""

    FAIR = "fair"
    SUBMISSION = "submission"


class FirstToPay(StrEnum):
    """Who loses what it has on loan first: the virtual cluster with the largest share, or whoever loses least work."""

    SHARE = "share"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the cluster as a whole is scheduled; the defaults are what the portal runs.

    order: among users of a virtual cluster by decayed use, or by submission alone.
    half_life_ms: after which use counts half.
    backfill: later jobs may start beside a reservation that they cannot delay.
    lending: idle cells are lent and taken back.
    promotion: who runs on loan keeps its turn, and moves into its quota where it is when that is free.
    first_to_pay: whom cells on loan are taken back from first.
    unsaved_cap_ms: work without a checkpoint counts for at most this long when victims are chosen.
    """

    order: Order = Order.FAIR
    half_life_ms: int = 7 * 24 * 3_600_000
    backfill: bool = True
    lending: bool = True
    promotion: bool = True
    first_to_pay: FirstToPay = FirstToPay.SHARE
    unsaved_cap_ms: int = 4 * 3_600_000


class ClusterError(ValueError):
    """The description of a cluster contradicts itself; `subject` is the id it is about."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class QuotaTooLarge(ClusterError):
    """The quotas ask for more cells of a level (`cell_type`) than there are: `needed` of `available`."""

    def __init__(self, cell_type: str, needed: int, available: int, chain: str = "") -> None:
        where = f"{chain}: {cell_type}" if chain not in ("", cell_type) else cell_type
        super().__init__(where, f"the quotas need {needed} cells, {available} are there")
        self.chain = chain
        self.cell_type = cell_type
        self.needed = needed
        self.available = available


@dataclass(frozen=True, slots=True)
class Cluster(Description):
    """A description that was checked: every quota can be carved out of the physical cells.

    Cells count whether or not they are in service: an outage makes jobs wait, it revokes no quota. Where
    hardware that quotas were made for is gone, `quotas_may_exceed` reads the cluster as it is: jobs without
    GPUs to run on wait.
    Raises ClusterError for what `contradictions` finds (double ids, mixed nodes, cells that do not match their
    type, a pinned cell of two virtual clusters), QuotaTooLarge for quotas that cannot be carved out.
    """

    quotas_may_exceed: bool = False
    policy: Policy = Policy()
    leaf_types: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for subject, problem in contradictions(self):
            raise ClusterError(subject, problem)
        leaves = (leaf for node in self.nodes for leaf in node.leaves)
        object.__setattr__(self, "leaf_types", {leaf.id: leaf.cell_type for leaf in leaves})
        if not self.quotas_may_exceed:
            for short in shortages(self):
                raise QuotaTooLarge(short.cell_type, short.needed, short.available, short.chain)

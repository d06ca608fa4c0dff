"""Everything a decision reads. Builds a Placer for one question or a CycleState for a whole cycle."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import CellIndex
from scheduling.cells.claims import Claims
from scheduling.cells.request import JobShapes
from scheduling.cycle.cycle_state import CycleState
from scheduling.cycle.memory import CycleMemory
from scheduling.diagnosis.feasible_at_submit import Refusal, extra_refusals, refusals_on
from scheduling.model.cluster import Cluster
from scheduling.model.elastic import whole_gang
from scheduling.model.job import Job
from scheduling.model.snapshot import Claim, Running
from scheduling.placement.feasibility import QuotaFeasibility
from scheduling.placement.placer import Placer
from scheduling.preemption.victim_cost import VictimCosts
from scheduling.preemption.victim_selection import LowerPriorities
from scheduling.queue.caps import LimitUsage
from scheduling.queue.job_index import JobIndex
from scheduling.queue.loan_cooldown import LoanCooldown
from scheduling.queue.loan_limits import Loans


class ClusterContext:
    """What follows from the cluster alone: cells by number, shapes of jobs, the cluster without jobs (`idle`), and
    which shapes the quota holds at all (`holdable`)."""

    def __init__(self, cluster: Cluster) -> None:
        self.layout = CellIndex(cluster)
        self.shapes = JobShapes(self.layout)
        self.idle = Allocator(self.layout)
        self.holdable = QuotaFeasibility(self.idle)
        self._served: Allocator | None = None
        self._refused: dict[tuple[int, int, bool], tuple[Refusal, ...]] = {}

    def refusals(self, job: Job) -> tuple[Refusal, ...]:
        """Why the job can never run here; worked out once for each shape."""
        gang = whole_gang(job)
        shape = self.shapes.of(gang)
        if self._served is None:
            self._served = Allocator(self.layout).all_in_service()
        key = (shape.number, job.priority, job.id in job.after)
        if key not in self._refused:
            self._refused[key] = refusals_on(self._served, shape, gang)
        return self._refused[key] or extra_refusals(self.layout.cluster, job)


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The engine's own state, as long as the cluster stays as it is."""

    context: ClusterContext
    allocator: Allocator
    job_index: JobIndex
    claims: Claims

    def placer(self, now: int) -> Placer:
        """A Placer on the state itself, for a question that changes nothing."""
        job_index, claims = self.job_index, self.claims.by_claimant
        job_index.loans.set_own_apart(self.allocator)
        return self._placer(now, job_index.running, claims, self._claimants(claims), job_index.loans)

    def state(
        self, now: int, reservations: Collection[str], memory: CycleMemory, *, to_change: bool = True
    ) -> CycleState:
        """The state of a cycle: copies of the maps, and the allocator, which is changed in a transaction. Unless
        `to_change`, the maps themselves."""
        context, job_index = self.context, self.job_index
        running, claims, loans = job_index.running, self.claims.by_claimant, job_index.loans
        loans.set_own_apart(self.allocator)
        if to_change:
            running, claims, loans = running.copy(), self.claims.copy(), loans.copy()
        claimants = self._claimants(claims)
        placer = self._placer(now, running, claims, claimants, loans)
        return CycleState(
            placer, context.shapes, job_index.usage_history.shares(now), loans,
            job_index.queues, job_index.opportunistic, running, job_index.waiting, claims, claimants,
            job_index.demotions, job_index.elastic, reservations,
            context.layout.cluster.leaf_types, memory, LimitUsage(context.layout, running, job_index.waiting, claims),
        )  # fmt: skip

    def _claimants(self, claims: Mapping[str, object]) -> dict[str, Job]:
        waiting = self.job_index.waiting
        return {name: waiting[name] for name in claims if name in waiting}

    def _placer(
        self,
        now: int,
        running: Mapping[str, Running],
        claims: Mapping[str, Mapping[str, Claim]],
        claimants: Mapping[str, Job],
        loans: Loans,
    ) -> Placer:
        context, allocator = self.context, self.allocator
        allocator.changed_jobs.clear()
        costs = VictimCosts(running, loans.shares, now, context.layout.policy)
        lower = LowerPriorities(allocator, running, claimants, costs, self.job_index.ranks.lowest)
        resting = LoanCooldown(context.layout.leaf_at, self.job_index.freed, now)
        return Placer(allocator, context.idle, running, claims, costs, lower, now, context.holdable, resting)

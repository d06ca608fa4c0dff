"""What answers rest on: the cluster, who runs, waits and claims there; a desk for one question, a state for a pass."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scheduling.claims import Claims
from scheduling.deciding import Desk
from scheduling.held import Held
from scheduling.hived import Views
from scheduling.jobs import Job
from scheduling.ledger import Ledger
from scheduling.lending import Loans
from scheduling.lower import Lower
from scheduling.preemption import Costs
from scheduling.resting import Resting
from scheduling.roster import Roster
from scheduling.snapshot import Claim, Running
from scheduling.state import Memory, State
from scheduling.terrain import Terrain


@dataclass(frozen=True, slots=True)
class Basis:
    """The engine's own books, as long as the cluster stays as it is."""

    terrain: Terrain
    ledger: Ledger
    roster: Roster
    claims: Claims
    views: Views

    def desk(self, now: int) -> Desk:
        """For a question that changes nothing: the books themselves."""
        roster, claims = self.roster, self.claims.by_claimant
        roster.loans.set_own_apart(self.ledger)
        return self._desk(now, roster.running, claims, self._claimants(claims), roster.loans)

    def state(self, now: int, reservations: Collection[str], memory: Memory, *, to_change: bool = True) -> State:
        """What a pass works on: it changes the ledger in a trial, and maps of its own. Not `to_change`: the books."""
        terrain, roster = self.terrain, self.roster
        running, claims, loans = roster.running, self.claims.by_claimant, roster.loans
        loans.set_own_apart(self.ledger)
        if to_change:
            running, claims, loans = running.copy(), self.claims.copy(), loans.copy()
        claimants = self._claimants(claims)
        desk = self._desk(now, running, claims, claimants, loans)
        return State(
            desk, terrain.shapes, roster.book.shares(now), loans, roster.queues, roster.opportunistic, running,
            roster.waiting, claims, claimants, roster.demotions, reservations, terrain.layout.cluster.leaf_types,
            memory, Held(terrain.layout, running, roster.waiting, claims),
        )  # fmt: skip

    def _claimants(self, claims: Mapping[str, object]) -> dict[str, Job]:
        waiting = self.roster.waiting
        return {name: waiting[name] for name in claims if name in waiting}

    def _desk(
        self,
        now: int,
        running: Mapping[str, Running],
        claims: Mapping[str, Mapping[str, Claim]],
        claimants: Mapping[str, Job],
        loans: Loans,
    ) -> Desk:
        terrain, ledger = self.terrain, self.ledger
        ledger.stirred.clear()
        costs = Costs(running, loans.shares, now, terrain.layout.policy)
        lower = Lower(ledger, running, claimants, costs, self.roster.ranks.lowest)
        resting = Resting(terrain.layout.leaf_at, self.roster.freed, now)
        return Desk(
            ledger, terrain.idle, running, claims, costs, lower, now, terrain.holdable, resting, views=self.views
        )  # fmt: skip

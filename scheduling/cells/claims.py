"""Claims: which leaf is kept for whom; at most one claim on a leaf."""

from collections.abc import Iterable, Iterator, Sequence

from scheduling.cells.cell_state import Amount
from scheduling.model.job import Job, TaskRef
from scheduling.model.snapshot import Claim


class Claims:
    """All claims; those of one claimant together are where it will start."""

    def __init__(self) -> None:
        self.by_claimant: dict[str, dict[str, Claim]] = {}
        self._claimant: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_claimant)

    def __contains__(self, claimant: str) -> bool:
        return claimant in self.by_claimant

    def of(self, claimant: str) -> dict[str, Claim]:
        """The claims of a job by leaf; empty where it has none."""
        return self.by_claimant.get(claimant, {})

    def all(self) -> list[Claim]:
        """Every claim, in the order of leaves."""
        found = [claim for claims in self.by_claimant.values() for claim in claims.values()]
        return sorted(found, key=lambda claim: claim.leaf)

    def copy(self) -> dict[str, dict[str, Claim]]:
        """The claims by claimant and leaf, to be changed by whoever asks."""
        return {name: claims.copy() for name, claims in self.by_claimant.items()}

    def claimant(self, leaf: str) -> str | None:
        """Who has claimed this leaf."""
        return self._claimant.get(leaf)

    def add(self, claim: Claim) -> None:
        """Enter a claim in place of an earlier one on its leaf."""
        self.drop(claim.leaf)
        self.by_claimant.setdefault(claim.claimant, {})[claim.leaf] = claim
        self._claimant[claim.leaf] = claim.claimant

    def drop(self, leaf: str) -> Claim | None:
        """Take the claim on this leaf out."""
        name = self._claimant.pop(leaf, None)
        if name is None:
            return None
        claim = self.by_claimant[name].pop(leaf)
        if not self.by_claimant[name]:
            del self.by_claimant[name]
        return claim

    def victim_gone(self, leaf: str, victim: str) -> None:
        """Notes that the victim has left this leaf."""
        name = self._claimant.get(leaf)
        claim = self.by_claimant[name][leaf] if name is not None else None
        if claim is not None and claim.victim == victim:
            self.by_claimant[claim.claimant][leaf] = claim._replace(victim=None)


def parked_in(claims: Iterable[Claim]) -> list[str]:
    """The leaves of these claims whose claimant is parked there."""
    return [claim.leaf for claim in claims if claim.parked]


def needs_of(job: Job | None, claims: Iterable[Claim]) -> dict[str, Amount]:
    """CPU and memory to be kept beside each claimed leaf: what its task needs, in even parts."""
    if job is None:
        return {}
    leaves: dict[TaskRef, list[str]] = {}
    for claim in claims:
        leaves.setdefault(claim.task, []).append(claim.leaf)
    found: dict[str, Amount] = {}
    for task, mine in leaves.items():
        role = job.role(task.role)
        cpu, memory = _parts(role.cpu_milli, len(mine)), _parts(role.memory_mb, len(mine))
        found.update(zip(sorted(mine), zip(cpu, memory, strict=True), strict=True))
    return found


def _parts(amount: int, count: int) -> Sequence[int]:
    """As even as whole numbers can be, the larger ones first."""
    return [(amount + count - 1 - place) // count for place in range(count)]

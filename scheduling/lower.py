"""Who of a virtual cluster may lose its cells to a job of higher priority there."""

from collections.abc import Callable, Mapping

from scheduling.jobs import Job
from scheduling.ledger import Ledger
from scheduling.preemption import Costs
from scheduling.snapshot import Running
from scheduling.sparing import Candidates, Price


class Lower:
    """The lower priorities of one pass. `running` and `claimants` are the engine's own; `lowest` gives the lowest
    priority that runs or claims inside a virtual cluster."""

    def __init__(
        self,
        ledger: Ledger,
        running: Mapping[str, Running],
        claimants: Mapping[str, Job],
        costs: Costs,
        lowest: Callable[[str], int],
    ) -> None:
        self.lowest = lowest
        self._ledger = ledger
        self._running = running
        self._claimants = claimants
        self._costs = costs
        self._candidates: dict[str, Candidates] = {}
        self._came: dict[str, int] = {}

    def than(self, job: Job) -> list[str]:
        """Those of strictly lower priority, whose loss is least first."""
        return self._of(job.vc).below(job.priority)

    def below(self, job: Job) -> Candidates | None:
        """Who of its virtual cluster may lose virtual leaves; None where nobody is of lower priority."""
        lowest = min(self.lowest(job.vc), self._came.get(job.vc, job.priority))
        return self._of(job.vc) if lowest < job.priority else None

    def count(self, job: Job) -> int:
        """How many jobs of its virtual cluster the job may take virtual leaves from."""
        below = self.below(job)
        return len(below.below(job.priority)) if below is not None else 0

    def came(self, job: Job) -> None:
        """The job runs inside its quota or claims cells since this pass, of which `lowest` does not know."""
        self._came[job.vc] = min(job.priority, self._came.get(job.vc, job.priority))

    def _of(self, vc: str) -> Candidates:
        if vc not in self._candidates:
            self._candidates[vc] = Candidates(self._ledger, vc, self._worth)
        return self._candidates[vc]

    def _worth(self, name: str) -> tuple[Price, int] | None:
        """The price and the priority of a job that runs, or that (cheaper) merely claims; None: it stays."""
        running = self._running.get(name)
        if running is None:
            claimant = self._claimants.get(name)
            return None if claimant is None else ((False, -1, claimant.priority, 0, name), claimant.priority)
        if not running.job.preemptible:
            return None
        protected, _, counted, lost, _ = self._costs.of(name)
        return (protected, running.job.priority, counted, lost, name), running.job.priority

"""What follows from the cluster alone and is worked out once for it, whoever runs there."""

from scheduling.admission import Refusal, refusals_on
from scheduling.cells import Cluster
from scheduling.holdable import Holdable
from scheduling.jobs import Job
from scheduling.layout import Layout
from scheduling.ledger import Ledger
from scheduling.shapes import Shapes


class Terrain:
    """The cells by number, the shapes of jobs on them, the cluster without jobs (`idle`). `holdable` knows which
    shapes the quota holds at all."""

    def __init__(self, cluster: Cluster) -> None:
        self.layout = Layout(cluster)
        self.shapes = Shapes(self.layout)
        self.idle = Ledger(self.layout)
        self.holdable = Holdable(self.idle)
        self._served: Ledger | None = None
        self._refused: dict[tuple[int, int, bool], tuple[Refusal, ...]] = {}

    def refusals(self, job: Job) -> tuple[Refusal, ...]:
        """Why the job can never run here. Equal jobs are refused alike: worked out once for each shape."""
        shape = self.shapes.of(job)
        if self._served is None:
            self._served = Ledger(self.layout).all_in_service()
        key = (shape.number, job.priority, job.id in job.after)
        if key not in self._refused:
            self._refused[key] = refusals_on(self._served, shape, job)
        return self._refused[key]

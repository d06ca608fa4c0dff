"""The engine with HiveD's own choice of cells: what its cases are replayed with."""

from scheduling.cells.request import Choice, Unit, apart
from scheduling.engine import Engine
from scheduling.model.cluster import Cluster
from scheduling.model.description import Node
from scheduling.model.job import Job
from scheduling.model.plan import Code, Demotion, Preempt, Reason, Start, Wait
from scheduling.model.snapshot import Claim, Snapshot
from scheduling.placement.attempt import PlacementAttempt
from scheduling.placement.opportunistic_placement import on_these
from scheduling.placement.physical_mapping import PhysicalMapping
from scheduling.placement.placer import Placer
from scheduling.placement.virtual_placement import VirtualPlacement
from tests.hived.hardware import mapped
from tests.hived.virtual_nodes import Views, in_quota, look, on_loan

NodeIds = frozenset[str] | None
"""Nodes that may be used; None is every node."""


class HivedEngine:
    """Cells, claims, victims and demotions are the engine's own; which cells a group gets is chosen as HiveD does, and
    without a queue, CPU and memory. HiveD goes on from the order in which its virtual nodes stood last (`views`)."""

    def __init__(self, start: Cluster | Snapshot) -> None:
        self.engine = Engine(start)
        self.views: Views = {}

    def decide(self, job: Job, now: int, nodes: NodeIds, may_preempt: bool = True) -> Start | Preempt | Wait:
        """What would become of a job."""
        placer, choices = self.engine._engine_context.placer(now), self.engine._context.shapes.of(job).choices
        for choice in apart(choices, job.gang):
            answer = (
                self._on_loan(placer, job, choice, nodes)
                if job.opportunistic
                else self._in_quota(placer, job, choice.units[0], nodes, may_preempt)
            )
            if answer is not None:
                return answer
        return Wait(job, Reason(Code.FRAGMENTED, {}, "there is no place"))

    def _in_quota(
        self, placer: Placer, job: Job, unit: Unit, nodes: NodeIds, may_preempt: bool
    ) -> Start | Preempt | None:
        below = set(placer.lower.than(job))
        for over in (None, below.__contains__) if may_preempt else (None,):
            found = [
                in_quota(placer.allocator, self.views, job.vc, pool.name, pool.parts, self._mask(nodes), over)
                for pool in unit.pools
            ]
            if None not in found:
                return self._on_hardware(placer, job, nodes, [one for some in found for one in some or ()])
        return None

    def _on_hardware(
        self, placer: Placer, job: Job, nodes: NodeIds, found: list[VirtualPlacement]
    ) -> Start | Preempt | None:
        """Hardware for these virtual leaves; who has some of them is demoted or has to leave."""
        allocator = placer.allocator
        chosen = {name for one in found for name, mask in allocator.owners[one.cell].items() if mask & one.leaves}
        chosen &= placer.running.keys()
        allocator.begin()
        try:
            lazy = placer._set_aside(chosen)
            ending = placer._ending_tasks(frozenset(chosen - lazy), found)
            allowed = placer.allowed(job) & self._mask(nodes)
            hardware = mapped(PlacementAttempt(allocator, job, allowed, placer.costs, ending), found)
        finally:
            allocator.rollback()
        if hardware is None:
            return None
        taken = PhysicalMapping(hardware.placements, hardware.taken | ending)
        return placer._answer(job, taken, frozenset(lazy))

    def _on_loan(self, placer: Placer, job: Job, choice: Choice, nodes: NodeIds) -> Start | None:
        """Where HiveD finds no place though there is one, the engine's own follows."""
        for unit in choice.units:
            (pool,) = unit.pools
            found = on_loan(placer.allocator, self.views, pool.chain, pool.parts, self._mask(nodes))
            if found:
                layout = placer.allocator.layout
                return Start(job, tuple(on_these(layout, *one) for one in found), placer.now)
        return placer.borrowed(job if nodes is None else job._replace(only_nodes=nodes), choice)

    def look(self, job: Job, nodes: NodeIds) -> None:
        """A job is asked about: the order in which the virtual nodes stand now is kept."""
        shape = self.engine._context.shapes.of(job)
        for pool in {pool.name for choice in shape.choices for unit in choice.units for pool in unit.pools}:
            allocator = self.engine._allocator
            look(allocator, self.views, "" if job.opportunistic else job.vc, pool, self._mask(nodes))

    def _mask(self, nodes: NodeIds) -> int:
        layout = self.engine._context.layout
        return layout.all_nodes() if nodes is None else layout.mask_of(nodes)

    # What happened

    def submit(self, job: Job) -> None:
        """A job waits; HiveD refuses none."""
        self.engine._job_index.enqueue(job)

    def start(self, start: Start) -> None:
        """A job runs."""
        self.engine.start(start)

    def finish(self, job_id: str) -> None:
        """A job is over."""
        self.engine.finish(job_id)

    def claim(self, claim: Claim) -> None:
        """A leaf is kept for a job."""
        self.engine.claim(claim)

    def demote(self, demotion: Demotion) -> None:
        """A running job loses its virtual cells."""
        self.engine.demote(demotion)

    def set_node(self, node: Node) -> None:
        """A node has changed."""
        self.engine.set_node(node)

    def snapshot(self) -> Snapshot:
        """Everything known."""
        return self.engine.snapshot()

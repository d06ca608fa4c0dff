"""A HiveD scheduler as a case drives it, played by the engine: pods of groups come, are bound, and go.

A group is a job and its pods are the job's tasks; which task a pod is follows from its place. A group holds all
its GPUs until its last bound pod is gone. What HiveD calls a Preempting group is a waiting job with claims.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from scheduling.config.reading import machine
from scheduling.model.cluster import Cluster
from scheduling.model.description import Node, NodeState
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Demotion, Preempt, Start, Wait
from scheduling.model.snapshot import Claim, Snapshot
from tests.hived.binding import Grid
from tests.hived.cases import Request
from tests.hived.engine import HivedEngine, NodeIds
from tests.hived.mapper import bound_anew


class Scheduler(Protocol):
    """What a case asks of a scheduler."""

    def decide(self, job: Job, now: int, nodes: NodeIds, may_preempt: bool = True) -> Start | Preempt | Wait:
        """What would become of a job."""

    def look(self, job: Job, nodes: NodeIds) -> None:
        """A job is asked about, for once and not as a trial: HiveD keeps its virtual nodes sorted as they are now."""

    def submit(self, job: Job) -> None:
        """A job waits."""

    def start(self, start: Start) -> None:
        """A job runs."""

    def finish(self, job_id: str) -> None:
        """A job is over."""

    def claim(self, claim: Claim) -> None:
        """A leaf is kept for a job."""

    def demote(self, demotion: Demotion) -> None:
        """A running job loses its virtual cells."""

    def set_node(self, node: Node) -> None:
        """A node has changed."""

    def snapshot(self) -> Snapshot:
        """Everything known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a scheduler says of a pod: `bind`, `wait` or `preempt`, with the places of its whole group.

    `task` is the one that the pod is if it binds; `victims` are the groups that must end, `demoted` those that
    lose their virtual cells, `released` leaves that others lose their claims on.
    """

    result: str
    job: Job | None = None
    placements: tuple[TaskPlacement, ...] = ()
    task: TaskRef | None = None
    victims: frozenset[str] = frozenset()
    demoted: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()

    def placement(self) -> TaskPlacement:
        """The place of the pod itself."""
        return next(one for one in self.placements if one.task == self.task)


WAIT = Answer("wait")


@dataclass(slots=True)
class Group:
    """A bound group: its pods by name, each with its task."""

    job: Job
    pods: dict[str, TaskRef] = field(default_factory=dict)


class World:
    """The state of one scheduler. `decide` changes nothing; the other methods tell what happened.

    `last` keeps the places of each group that was ever bound, and `tasks` which task a pod was: what runs on
    through a restart.
    """

    def __init__(
        self, cluster: Cluster, pods: dict[str, Request], make: Callable[[Cluster], Scheduler] = HivedEngine
    ) -> None:
        self.requests = pods
        self.make = make
        self.last: dict[str, tuple[Job, tuple[TaskPlacement, ...]]] = {}
        self.tasks: dict[str, TaskRef] = {}
        self.answers: dict[str, Answer] = {}
        self.begin(cluster)

    def begin(self, cluster: Cluster) -> None:
        """A new scheduler that knows no group; every node is healthy. A pod that the last one told to bind may still be
        bound: it runs on, then."""
        for pod, answer in self.answers.items():
            if answer.result == "bind" and answer.job is not None and answer.task is not None:
                self.last[answer.job.id], self.tasks[pod] = (answer.job, answer.placements), answer.task
        self.answers = {}
        self.cluster = cluster
        self.engine = self.make(self.cluster)
        self.groups: dict[str, Group] = {}
        self.asking: dict[str, set[str]] = {}
        self.now = 0
        self.learn()

    def learn(self) -> None:
        """Take note of what the engine's cluster is now."""
        self.grid = Grid(self.engine.snapshot().cluster)
        self.nodes_of: dict[str, list[str]] = {}
        for node in self.cluster.nodes:
            self.nodes_of.setdefault(machine(node), []).append(node.id)
        self.machine_of = {one: name for name, ids in self.nodes_of.items() for one in ids}

    # What is asked

    def decide(self, pod: str, nodes: NodeIds) -> Answer:
        """What becomes of the pod now."""
        request = self.requests[pod]
        group, job = self.groups.get(request.group), request.job()
        if job is None or job.vc not in self.grid.quota:
            return WAIT
        if group is not None:
            return self._in_group(pod, group)
        claims = self.claims(job.id)
        if claims:
            return self._at_claims(job, request, claims)
        return self._read(job, request, self.engine.decide(job, self.now, nodes, may_preempt=True))

    def _at_claims(self, job: Job, request: Request, claims: list[Claim]) -> Answer:
        """A group that has claimed its places keeps them: it binds there when nobody is left on them."""
        tasks: dict[TaskRef, list[LeafUse]] = {}
        for one in claims:
            use = LeafUse(one.leaf, one.virtual_cell, Standing.GUARANTEED)
            tasks.setdefault(one.task, []).append(use)
        placements = tuple(
            TaskPlacement(task, self.node_of(uses[0].leaf), tuple(uses), 0, 0) for task, uses in sorted(tasks.items())
        )
        victims = frozenset(one.victim for one in claims if one.victim is not None)
        return Answer("preempt" if victims else "bind", job, placements, request.tasks()[0], victims)

    def _in_group(self, pod: str, group: Group) -> Answer:
        taken = set(group.pods.values())
        free = [one for one in self.requests[pod].tasks() if one not in taken]
        placed = {one.task for one in self.placements(group.job.id)}
        task = next((one for one in free if one in placed), None)
        return WAIT if task is None else Answer("bind", group.job, self.placements(group.job.id), task)

    def _read(self, job: Job, request: Request, decision: Start | Preempt | Wait) -> Answer:
        if isinstance(decision, Wait):
            return replace(WAIT, job=job)
        victims = frozenset(one.job for one in decision.victims) if isinstance(decision, Preempt) else frozenset()
        result = "preempt" if victims else "bind"
        demoted, released = frozenset(decision.demotes), frozenset(decision.releases)
        return Answer(result, job, decision.placements, request.tasks()[0], victims, demoted, released)

    # What happens

    def give_up_spoilt(self, pod: str, nodes: NodeIds) -> None:
        """A preemption onto a node that is bad now, or that the pod may not use, is cancelled."""
        group = self.requests[pod].group
        for claim in self.claims(group):
            node = self.node_of(claim.leaf)
            if claim.leaf in self.grid.bad or (nodes is not None and node not in nodes):
                self.cancel(group)
                return

    def look(self, pod: str, nodes: NodeIds) -> None:
        """The pod is asked about now: what HiveD remembers of that, where its group is new."""
        request = self.requests[pod]
        job = request.job()
        if job is not None and job.vc in self.grid.quota and job.id not in self.groups and not self.claims(job.id):
            self.engine.look(job, nodes)

    def carry_out(self, pod: str, answer: Answer, preempting: bool) -> None:
        """The answer is given: groups are demoted, claims are made. A pod that binds is not bound yet (`add`)."""
        if answer.job is None:
            return
        for group in sorted(answer.demoted):
            self.engine.demote(Demotion(group, answer.job.id))
        self.answers[pod] = answer
        if answer.result == "wait" or not preempting or answer.job.id in self.groups:
            return
        self._take_over(answer)
        if answer.result == "preempt":
            self._claim(answer)
        if self.claims(answer.job.id):
            self.asking.setdefault(answer.job.id, set()).add(pod)

    def add(self, pod: str) -> None:
        """A pod that was told to bind is bound; one that was not told so (a difference already) is nowhere."""
        answer = self.answers.pop(pod, WAIT)
        if answer.result != "bind" or answer.job is None or answer.task is None:
            return
        name = answer.job.id
        if name not in self.groups:
            self._take_over(answer)
            placements = answer.placements
            if {one.leaf for one in self.claims(name)} - leaves_of(placements):
                self.cancel(name)
            if not self.claims(name):
                placements = bound_anew(self.snapshot(), self.grid, answer.job, placements)
            self.start(answer.job, placements)
        group, task = self.groups[name], answer.task
        if task in group.pods.values():
            free = [one for one in self.requests[pod].tasks() if one not in group.pods.values()]
            task = free[0] if free else task
        group.pods[pod] = self.tasks[pod] = task

    def start(self, job: Job, placements: tuple[TaskPlacement, ...]) -> None:
        """A whole group runs here."""
        self.engine.start(Start(job, placements, self.now))
        self.asking.pop(job.id, None)
        self.groups[job.id] = Group(job)
        self.last[job.id] = (job, placements)

    def delete(self, pod: str) -> None:
        """A bound pod ended."""
        name = self.requests[pod].group
        group = self.groups.get(name)
        if group is not None and group.pods.pop(pod, None) is not None and not group.pods:
            if self.placements(name):
                self.engine.finish(name)
            del self.groups[name]

    def withdraw(self, pod: str) -> None:
        """A pod that is not bound is gone; with the last one that asked a preemption is cancelled."""
        name = self.requests[pod].group
        asking = self.asking.get(name, set())
        asking.discard(pod)
        if not asking and self.claims(name):
            self.cancel(name)

    def cancel(self, group: str) -> None:
        """A preemption is off: its claims are given up, its victims stay what they are."""
        self.engine.finish(group)
        self.asking.pop(group, None)

    def set_health(self, name: str, healthy: bool) -> None:
        """A machine turned bad or healthy; one that is in no configuration is nobody's business."""
        state = NodeState.OPEN if healthy else NodeState.DOWN
        for node in self.snapshot().cluster.nodes:
            if machine(node) == name and node.state != state:
                self.engine.set_node(replace(node, state=state))
        self.learn()

    def _take_over(self, answer: Answer) -> None:
        """Cancel the preemptions that had claimed a leaf of these places."""
        assert answer.job is not None
        wanted = leaves_of(answer.placements) | answer.released
        for claimant in sorted({one.claimant for one in self.snapshot().claims if one.leaf in wanted}):
            if claimant != answer.job.id:
                self.cancel(claimant)

    def _claim(self, answer: Answer) -> None:
        assert answer.job is not None
        if self.claims(answer.job.id):
            return
        self.engine.submit(answer.job)
        holders = self.holders()
        for placement in answer.placements:
            for use in placement.leaves:
                victim, cell = holders.get(use.leaf), use.virtual_cell or ""
                self.engine.claim(Claim(use.leaf, answer.job.id, victim, cell, placement.task))

    # What is there

    def snapshot(self) -> Snapshot:
        """The engine's state."""
        return self.engine.snapshot()

    def claims(self, group: str) -> list[Claim]:
        """What a group has claimed."""
        return [one for one in self.snapshot().claims if one.claimant == group]

    def placements(self, group: str) -> tuple[TaskPlacement, ...]:
        """The places of a bound group."""
        found = (one for one in self.snapshot().running if one.job.id == group)
        return tuple(task.placement for one in found for task in one.tasks)

    def uses(self, group: str) -> list[LeafUse]:
        """The leaves of a bound group."""
        return [use for placement in self.placements(group) for use in placement.leaves]

    def holders(self) -> dict[str, str]:
        """Which group holds a leaf."""
        return {use.leaf: name for name in self.groups for use in self.uses(name)}

    def pods_of(self, groups: Iterable[str]) -> set[str]:
        """The bound pods of these groups."""
        return {pod for name in groups if name in self.groups for pod in self.groups[name].pods}

    def state(self, group: str) -> str | None:
        """HiveD's state of a group, None for one that is not known."""
        if group in self.groups:
            mine = {use.leaf for use in self.uses(group)}
            wanted = any(one.leaf in mine for one in self.snapshot().claims if one.claimant != group)
            return "BeingPreempted" if wanted else "Allocated"
        return "Preempting" if self.claims(group) else None

    def demoted(self, group: str) -> bool:
        """Whether a bound group has lost its virtual cells."""
        found, uses = self.groups.get(group), self.uses(group)
        guaranteed = found is not None and not found.job.opportunistic
        return guaranteed and bool(uses) and all(not use.virtual_cell for use in uses)

    def node_of(self, leaf: str) -> str:
        """The node of a leaf."""
        return self.leaf_node[leaf]

    @property
    def leaf_node(self) -> dict[str, str]:
        """The node of each leaf."""
        return {leaf.id: node.id for node in self.cluster.nodes for leaf in node.leaves}

    def allowed(self, suggested: object, anywhere: bool) -> NodeIds:
        """The nodes that `suggestedNodes` of a step leaves."""
        if anywhere or suggested == "all":
            return None
        if isinstance(suggested, dict):
            out = set(suggested.get("allExcept", ()))
            return frozenset(node for node, name in self.machine_of.items() if name not in out)
        assert isinstance(suggested, list)
        return frozenset(node for name in suggested for node in self.nodes_of.get(name, ()))


def leaves_of(placements: Iterable[TaskPlacement]) -> set[str]:
    """The leaves of placements."""
    return {use.leaf for placement in placements for use in placement.leaves}

"""Follow mode: after each decision the recorded one is put in its place, so that later ones start from one state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.model.job import Job, TaskPlacement, TaskRef
from tests.hived.engine import NodeIds
from tests.hived.forced import Place, kind_of, leaves_held, virtual_cells
from tests.hived.mapper import Kind
from tests.hived.world import Answer, World, leaves_of


@dataclass(frozen=True, slots=True)
class Spot:
    """A recorded place of a pod: the machine and its GPUs by number."""

    machine: str
    gpus: tuple[int, ...]


def spot_of(told: Mapping[str, Any]) -> Spot | None:
    """The place that a record names, if it is one of a bind."""
    if told.get("result") != "bind" or not isinstance(told.get("node"), str):
        return None
    return Spot(told["node"], tuple(told.get("leafCells") or ()))


def told_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """What a step says of the answer: what a test expects of it stands above what was observed once."""
    observed, expected = step.get("observed") or {}, step.get("expect") or {}
    if step.get("observedVaries"):
        return {"result": expected.get("result")}
    return {**observed, **expected}


def recorded_group(world: World, steps: Sequence[Mapping[str, Any]], at: int) -> dict[str, Spot]:
    """Where the record puts the pods of the group that step `at` asks for, as far as it goes on to say.

    A gang is placed as a whole; its other pods are told their places when they ask, those of one that preempts in
    any order. Looked for up to the end of the group, a withdrawal or a restart.
    """
    name = world.requests[steps[at]["pod"]].group
    claims = told_of(steps[at]).get("result") == "preempt"
    found: dict[str, Spot] = {}
    added: set[str] = set()
    for step in steps[at:]:
        pod = step.get("pod", "")
        if step["op"] == "newScheduler":
            break
        if pod not in world.requests or world.requests[pod].group != name:
            continue
        if step["op"] == "addAllocated":
            added.add(pod)
        elif step["op"] == "schedule" and (spot := spot_of(told_of(step))) is not None:
            if added or claims or pod == steps[at]["pod"]:
                found.setdefault(pod, spot)
        elif step["op"] in ("deleteAllocated", "deleteUnallocated"):
            added.discard(pod)
            if not added:
                break
    return found


def may_lose_claims(world: World, steps: Sequence[Mapping[str, Any]], at: int) -> bool:
    """Whether something between a preemption and the group's binding may have cancelled it: a higher priority of its
    virtual cluster that got cells, or a node that turned bad. Then it may bind elsewhere than it had claimed."""
    mine = world.requests[steps[at]["pod"]]
    for step in steps[at + 1 :]:
        other = world.requests.get(step.get("pod", ""))
        told = told_of(step).get("result") if step["op"] == "schedule" else None
        if other is not None and other.group == mine.group and told == "bind":
            return False
        higher = other is not None and other.vc == mine.vc and other.priority > mine.priority
        if step["op"] == "setBadNode" or (higher and told in ("bind", "preempt")):
            return True
    return False


class Follower:
    """Makes of our answer and the record the answer that is carried out; `problem` is why that could not be done.

    `firm`: what the group has claimed is what it binds to later.
    """

    def __init__(self, world: World, firm: bool = True) -> None:
        self.world = world
        self.firm = firm
        self.problem: str | None = None

    def answer(self, pod: str, ours: Answer, told: Mapping[str, Any], group: dict[str, Spot], nodes: NodeIds) -> Answer:
        """The recorded decision on a pod that may use these nodes, in our words."""
        self.problem = None
        job = self.world.requests[pod].job()
        if job is None or told.get("result") not in ("bind", "preempt"):
            return Answer("wait", job)
        if told["result"] == "preempt":
            return self._preempt(pod, job, ours, recorded_victims(self.world, told), group, nodes)
        if job.id in self.world.groups:
            return self._of_group(pod, job, group)
        places = self._places(pod, job, ours, group)
        if places is None:
            return Answer("wait", job)
        return self._placed("bind", pod, job, ours, places, self._demotions(job, ours))

    def _of_group(self, pod: str, job: Job, group: dict[str, Spot]) -> Answer:
        """A further pod of a bound group is the task at the recorded place."""
        spot, placements = group.get(pod), self.world.placements(job.id)
        taken = set(self.world.groups[job.id].pods.values())
        for placement in placements:
            if placement.task not in taken and spot and self._leaves(job, spot) == leaves_of([placement]):
                return Answer("bind", job, placements, placement.task)
        self.problem = f"the group has no task left at {spot}"
        return Answer("wait", job)

    def _placed(
        self,
        result: str,
        pod: str,
        job: Job,
        ours: Answer,
        places: list[Place],
        demotions: list[frozenset[str]],
    ) -> Answer:
        """The group at these places, in virtual cells that are legal after the first of the demotions that serves."""
        task = next(place.task for place in places if place.task.role == str(self.world.requests[pod].gpus))
        told = {one.task: kind for one in ours.placements if (kind := self._kind(one, job)) is not None}
        holders = self.world.holders()
        victims = {holders[leaf] for leaf in leaves_held(places) if leaf in holders}
        for demoted in demotions:
            placements = virtual_cells(self.world, job, places, told, demoted)
            if placements is not None:
                return Answer(result, job, placements, task, frozenset(victims), demoted)
        self.problem = "the recorded place lies in no legal virtual cells"
        return Answer(result, job, tuple(place.borrowed() for place in places), task, frozenset(victims))

    def _kind(self, placement: TaskPlacement, job: Job) -> Kind | None:
        return kind_of(self.world, placement.leaves[0].virtual_cell, job.vc)

    def _demotions(self, job: Job, ours: Answer) -> list[frozenset[str]]:
        """Sets of groups that the record may have demoted (lazy preemption), the likeliest first."""
        lower = [
            one.job.id
            for one in self.world.groups.values()
            if one.job.lazy_preemption and one.job.vc == job.vc and 0 <= one.job.priority < job.priority
        ]
        sets = [ours.demoted, frozenset[str](), *(frozenset((one,)) for one in lower), frozenset(lower)]
        return list(dict.fromkeys(sets))

    def _places(self, pod: str, job: Job, ours: Answer, group: dict[str, Spot]) -> list[Place] | None:
        """The tasks of the group at the recorded places; those that the record never tells of where ours puts them."""
        requests = self.world.requests
        pods = [pod, *(one for one in group if one != pod)]
        left = {one.name: list(range(one.count)) for one in job.roles}
        found: list[Place] = []
        for one in pods:
            role, spot = str(requests[one].gpus), group.get(one)
            leaves = self._ordered(job, spot) if spot else None
            if leaves is None or not left[role]:
                self.problem = f"there is no such place as {spot}"
                return None
            found.append(Place(TaskRef(role, left[role].pop(0)), self.world.node_of(leaves[0]), leaves))
        taken = leaves_held(found) | set(self.world.holders())
        for placement in ours.placements:
            leaves = tuple(use.leaf for use in placement.leaves)
            if left[placement.role] and taken.isdisjoint(leaves):
                found.append(Place(TaskRef(placement.role, left[placement.role].pop(0)), placement.node, leaves))
        return sorted(found, key=lambda place: len(place.leaves))

    def _ordered(self, job: Job, spot: Spot) -> tuple[str, ...] | None:
        """Ids of the leaves at a place; of a machine in several chains those of the SKU that the job wants."""
        sku = job.roles[0].sku
        types = self.world.cluster.leaf_types
        for node in self.world.nodes_of.get(spot.machine, []):
            leaves = tuple(f"{node}:{gpu}" for gpu in spot.gpus)
            if leaves and all(sku in (None, types[leaf]) if leaf in types else False for leaf in leaves):
                return leaves
        return None

    def _leaves(self, job: Job, spot: Spot) -> set[str]:
        return set(self._ordered(job, spot) or ())

    # Preemption

    def _preempt(
        self, pod: str, job: Job, ours: Answer, victims: frozenset[str], group: dict[str, Spot], nodes: NodeIds
    ) -> Answer:
        """Claims whose victims are the recorded ones: where the group binds later, where ours or where they are."""
        world = self.world
        claims = world.claims(job.id)
        if claims and {one.victim for one in claims if one.victim} == victims:
            return ours if ours.job else Answer("wait", job)
        if claims:
            world.cancel(job.id)
        places = self._places(pod, job, ours, group) if group else None
        for answer in self._ways(pod, job, ours, places, victims, nodes):
            if answer.victims == victims and self.problem is None:
                return answer
        self.problem = f"there is no place for it whose victims are {', '.join(sorted(victims))} alone"
        return Answer("wait", job)

    def _ways(
        self, pod: str, job: Job, ours: Answer, places: list[Place] | None, victims: frozenset[str], nodes: NodeIds
    ) -> Iterator[Answer]:
        """Answers that could be the recorded preemption. It may have been cancelled before the group bound."""
        demotions = self._demotions(job, ours)
        if not self.firm:
            yield ours
        if places is not None:
            yield self._placed("preempt", pod, job, ours, places, demotions[:1])
        self.problem = None
        yield self.world.decide(pod, nodes)
        if places is not None:
            yield self._placed("preempt", pod, job, ours, places, demotions[1:])
        self.problem = None
        for some in self._around(victims, nodes):
            yield self.world.decide(pod, some)

    def _around(self, victims: frozenset[str], nodes: NodeIds) -> list[frozenset[str]]:
        """Sets of nodes that a place with these victims may lie in: theirs, and with those that nobody is on."""
        world = self.world
        every = frozenset(node.id for node in world.cluster.nodes) if nodes is None else nodes
        theirs = {one.node for name in victims for one in world.placements(name)}
        busy = {one.node for name in world.groups for one in world.placements(name)}
        others = {one.node for name in set(world.groups) - victims for one in world.placements(name)}
        return [every & one for one in (theirs - others, theirs, every - others, every - (busy - theirs))]


def recorded_victims(world: World, told: Mapping[str, Any]) -> frozenset[str]:
    """The groups of the pods that a record names as victims."""
    pods = (pod for names in (told.get("victimsByNode") or {}).values() for pod in names)
    return frozenset(world.requests[pod].group for pod in pods if pod in world.requests)

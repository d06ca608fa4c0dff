"""Random job streams in the format of the case files: a cluster, quotas that fit it, and what happens to it.

A scheduler (`make`) is driven while the stream is made, so that what is deleted was bound; its answers are
recorded as `observed`. After every step the invariants are looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scheduling.config.faults import ConfigError
from scheduling.config.reading import machine
from scheduling.config.reading import read as read_cluster
from scheduling.model.cluster import Cluster
from tests.hived.cases import Request
from tests.hived.forced import recover
from tests.hived.invariants import broken, cannot_have_its_own
from tests.hived.world import Answer, Scheduler, World


def cluster_document(random: Random) -> dict[str, Any]:
    """One or two chains of racks of nodes of (quads of) pairs, two or three virtual clusters with parts of them."""
    types: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    kinds: list[tuple[str, str, dict[str, int]]] = []
    for sku in ["A", "B"][: random.choice([1, 1, 2])]:
        quads, nodes, racks = random.random() < 0.5, random.choice([2, 2, 3]), random.choice([1, 2, 2])
        chain = _chain(types, f"GPU-{sku}", quads, nodes)
        names = [f"{sku.lower()}-n{number}" for number in range(nodes * racks)]
        for rack in range(racks):
            children = [{"cellAddress": name} for name in names[rack * nodes : (rack + 1) * nodes]]
            cells.append({"cellType": chain[0], "cellChildren": children})
        if random.random() < 0.2:
            cells[-1]["cellChildren"][-1]["pinnedCellId"] = f"pin-{sku}"
        kinds += [(chain[0], ".".join(chain[:depth]), {}) for depth in range(1, len(chain) + 1)]
    quotas = _quotas(random, types, cells, [path for _, path, _ in kinds])
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": quotas}


def narrow_document(random: Random) -> dict[str, Any]:
    """A chain of nodes of one or two GPUs, perhaps in racks of one node or more and with sockets of one GPU; quotas of
    every level, single GPUs too."""
    nodes = random.choice([1, 2, 3])
    types: dict[str, Any] = {}
    path = ["GPU"]
    if random.random() < 0.3:
        types["SOCKET"] = {"childCellType": path[0], "childCellNumber": random.choice([1, 2])}
        path.insert(0, "SOCKET")
    types["NODE"] = {"childCellType": path[0], "childCellNumber": random.choice([1, 1, 2]), "isNodeLevel": True}
    path.insert(0, "NODE")
    names = [{"cellAddress": f"n{number}"} for number in range(max(3, 2 * nodes))]
    cells: list[dict[str, Any]] = [{"cellType": "NODE", **name} for name in names]
    if random.random() < 0.6:
        types["RACK"] = {"childCellType": "NODE", "childCellNumber": nodes}
        path.insert(0, "RACK")
        racks = (names[first : first + nodes] for first in range(0, len(names), nodes))
        cells = [{"cellType": "RACK", "cellChildren": some} for some in racks]
    paths = [".".join(path[:depth]) for depth in range(1, len(path) + 1)]
    quotas = _quotas(random, types, cells, paths)
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": quotas}


def _chain(types: dict[str, Any], sku: str, quads: bool, nodes: int) -> list[str]:
    """Cell types of a SKU, the rack's first and without the leaf's."""
    inner = [f"{sku}-PAIR", *([f"{sku}-QUAD"] if quads else [])]
    below = sku
    for name in inner:
        types[name] = {"childCellType": below, "childCellNumber": 2}
        below = name
    types[f"{sku}-NODE"] = {"childCellType": below, "childCellNumber": 2, "isNodeLevel": True}
    types[f"{sku}-RACK"] = {"childCellType": f"{sku}-NODE", "childCellNumber": nodes}
    return [f"{sku}-RACK", f"{sku}-NODE", *reversed(inner)]


def _quotas(random: Random, types: dict[str, Any], cells: list[Any], paths: list[str]) -> dict[str, Any]:
    """Quota lines are added as long as they can be carved out."""
    quotas: dict[str, Any] = {f"vc{number}": {"virtualCells": []} for number in range(random.choice([2, 2, 3]))}
    children = [child for cell in cells for child in cell.get("cellChildren", ())]
    pins = [child["pinnedCellId"] for child in children if "pinnedCellId" in child]
    for pin in pins:
        quotas[random.choice(sorted(quotas))].setdefault("pinnedCells", []).append({"pinnedCellId": pin})
    for _ in range(random.randint(3, 12)):
        lines = quotas[random.choice(sorted(quotas))]["virtualCells"]
        path = random.choice([*paths, *(one for one in paths if one.count(".") == 1)])
        lines.append({"cellType": path, "cellNumber": random.choice([1, 1, 2])})
        document = {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": quotas}
        try:
            read_cluster(document)
        except ConfigError:
            lines.pop()
    return quotas


@dataclass
class Stream:
    """A stream while it is made."""

    random: Random
    document: dict[str, Any]
    world: World
    steps: list[dict[str, Any]] = field(default_factory=list)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    bad: set[str] = field(default_factory=set)
    groups: int = 0

    # What can happen

    def submit(self) -> None:
        """A new group asks, pod by pod."""
        name = f"j{self.groups}"
        self.groups += 1
        request = self._request()
        members = [{"podNumber": count, "leafCellNumber": gpus} for gpus, count in request.members]
        made: list[str] = []
        for gpus, count in request.members:
            for _ in range(count):
                pod = f"{name}-{len(made)}"
                made.append(pod)
                self.world.requests[pod] = request._replace(gpus=gpus, group=name)
                self.pods[pod] = {
                    "virtualCluster": request.vc,
                    "priority": request.priority,
                    "pinnedCellId": request.pinned,
                    "leafCellType": request.sku,
                    "leafCellNumber": gpus,
                    "lazyPreemptionEnable": request.lazy,
                    "ignoreK8sSuggestedNodes": request.anywhere,
                    "affinityGroup": {"name": name, "members": members},
                }
        self._ask(made)

    def _request(self) -> Request:
        random = self.random
        sizes = sorted({len(node.leaves) for node in self.world.cluster.nodes})
        vc = random.choice(sorted(self.world.grid.quota))
        sku = random.choice(sorted(set(self.world.cluster.leaf_types.values())))
        gpus = random.choice([1, 1, 2, 2, 4, sizes[-1]])
        members = [(gpus, random.choice([1, 1, 1, 2, 2, 3]))]
        if random.random() < 0.2:
            members.append((random.choice([one for one in (1, 2, 4, 8) if one != gpus]), 1))
        priority = random.choice([-1, -1, 0, 0, 5, 10])
        pinned = random.choice([one.pinned for one in self.world.grid.quota[vc]] or [""]) if priority >= 0 else ""
        lazy, anywhere = random.random() < 0.3, random.random() < 0.8
        return Request(vc, priority, pinned, "" if pinned else sku, gpus, lazy, anywhere, "", tuple(members))

    def retry(self) -> None:
        """A group that waits asks again."""
        if self.waiting:
            group = self.random.choice(self.waiting)
            self._ask([pod for pod in self.pods if self.world.requests[pod].group == group])

    def end(self) -> None:
        """A bound group ends, or one of its pods."""
        if self.world.groups:
            group = self.world.groups[self.random.choice(sorted(self.world.groups))]
            pods = sorted(group.pods)
            self._delete(pods if self.random.random() < 0.8 else pods[:1])

    def withdraw(self) -> None:
        """The pods of a group that preempts are gone."""
        asking = {name: pods for name, pods in self.world.asking.items() if pods}
        if asking:
            name = self.random.choice(sorted(asking))
            for pod in sorted(asking[name]):
                self.steps.append({"op": "deleteUnallocated", "pod": pod})
                self.world.withdraw(pod)
            self._forget(name)

    def health(self) -> None:
        """A node turns bad, or healthy again."""
        names = sorted({machine(node) for node in self.world.cluster.nodes})
        name = self.random.choice(sorted(self.bad) if self.bad and self.random.random() < 0.6 else names)
        healthy = name in self.bad
        self.bad ^= {name}
        self.steps.append({"op": "setHealthyNode" if healthy else "setBadNode", "node": name})
        self.world.set_health(name, healthy)

    def restart(self) -> None:
        """A new scheduler takes over what runs."""
        before = {name: sorted(group.pods) for name, group in self.world.groups.items()}
        self.steps.append({"op": "newScheduler", "config": "config"})
        self.world.begin(read_cluster(self.document))
        for name in sorted(self.bad):
            self.steps.append({"op": "setBadNode", "node": name})
            self.world.set_health(name, False)
        for name, pods in before.items():
            for pod in pods:
                self.steps.append({"op": "addAllocated", "pod": pod, "recovered": True})
                if name not in self.world.groups:
                    recover(self.world, name)
                self.world.groups[name].pods[pod] = self.world.tasks[pod]

    # The ways of a group

    def _ask(self, pods: list[str]) -> None:
        name = self.world.requests[pods[0]].group
        suggested = self._suggested(pods[0])
        phase = self.random.choice(["Preempting"] * 5 + ["Filtering"])
        for pod in pods:
            answer = self._schedule(pod, suggested, phase)
            if answer.result == "preempt" and self.random.random() < 0.7:
                self._delete(sorted(self.world.pods_of(answer.victims)))
                answer = self._schedule(pod, suggested, phase)
            if answer.result != "bind":
                self.waiting = [*(one for one in self.waiting if one != name), name]
                return
            self.steps.append({"op": "addAllocated", "pod": pod})
            self.world.add(pod)
        self._forget(name)

    def _schedule(self, pod: str, suggested: Any, phase: str) -> Answer:
        nodes = self.world.allowed(suggested, self.world.requests[pod].anywhere)
        if phase == "Preempting":
            self.world.give_up_spoilt(pod, nodes)
        answer = self.world.decide(pod, nodes)
        observed: dict[str, Any] = {"result": answer.result}
        if answer.result == "bind":
            place = answer.placement()
            gpus = [int(use.leaf.rsplit(":", 1)[1]) for use in place.leaves]
            observed |= {"node": self.world.machine_of[place.node], "leafCells": gpus}
        if answer.result == "preempt":
            victims: dict[str, list[str]] = {}
            for one in sorted(self.world.pods_of(answer.victims)):
                group = self.world.requests[one].group
                place = next(p for p in self.world.placements(group) if p.task == self.world.groups[group].pods[one])
                victims.setdefault(self.world.machine_of[place.node], []).append(one)
            observed["victimsByNode"] = victims
        step = {"op": "schedule", "pod": pod, "suggestedNodes": suggested, "phase": phase, "observed": observed}
        self.steps.append(step)
        self.world.look(pod, nodes)
        self.world.carry_out(pod, answer, phase == "Preempting")
        return answer

    def _suggested(self, pod: str) -> Any:
        if self.world.requests[pod].anywhere:
            return "all"
        names = sorted({machine(node) for node in self.world.cluster.nodes})
        some = self.random.sample(names, self.random.randint(1, len(names)))
        return self.random.choice(["all", some, {"allExcept": some[:1]}])

    def _delete(self, pods: list[str]) -> None:
        for pod in pods:
            self.steps.append({"op": "deleteAllocated", "pod": pod})
            self.world.delete(pod)

    def _forget(self, name: str) -> None:
        self.waiting = [one for one in self.waiting if one != name]


def stream(
    seed: int,
    make: Callable[[Cluster], Scheduler],
    length: int = 40,
    cluster: Callable[[Random], dict[str, Any]] = cluster_document,
) -> tuple[dict[str, Any], list[str]]:
    """A case file with one random stream as this scheduler answered it, and the invariants that broke on the way."""
    random = Random(seed)
    document = cluster(random)
    made = Stream(random, document, World(read_cluster(document), {}, make))
    moves = [made.submit] * 8 + [made.retry] * 3 + [made.end] * 5 + [made.withdraw, made.health, made.restart]
    faults: list[str] = []
    for number in range(length):
        random.choice(moves)()
        faults += [f"step {len(made.steps) - 1}: {one}" for one in broken(made.world)]
        if number % 8 == 7:
            faults += [
                f"step {len(made.steps) - 1}: {vc} cannot bind its cells" for vc in cannot_have_its_own(made.world)
            ]
        if faults:
            break
    cases = [{"name": f"stream {seed}", "config": "config", "steps": made.steps}]
    return {"configs": {"config": document}, "pods": made.pods, "tests": cases}, faults

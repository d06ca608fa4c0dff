"""Replaying the tests of a case file, step by step."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.cells.allocator import PlacementConflict
from scheduling.config.faults import ConfigError
from scheduling.config.reading import read as read_cluster
from scheduling.model.cluster import Cluster
from tests.hived.cases import Case, CaseFile
from tests.hived.checks import Checks
from tests.hived.compare import Compared, Difference, compare
from tests.hived.engine import HivedEngine, NodeIds
from tests.hived.follow import Follower, Spot, may_lose_claims, recorded_group, told_of
from tests.hived.forced import recover
from tests.hived.world import Answer, Scheduler, World


@dataclass(slots=True)
class Tally:
    """How much was replayed: tests, steps, differences, and the steps on which ours is better."""

    tests: int = 0
    steps: int = 0
    differences: int = 0
    better: int = 0


def replay(
    cases: CaseFile, follow: bool, tally: Tally, make: Callable[[Cluster], Scheduler] = HivedEngine
) -> Iterator[Difference]:
    """All tests of a file; differences as they come, `tally` counts. `follow`: the record is carried out, not ours.

    `make` builds the scheduler of a cluster.
    """
    for case in cases.tests:
        tally.tests += 1
        tally.steps += len(case.steps)
        for difference in _Replay(cases, case, follow, tally, make).run():
            tally.differences += 1
            yield difference


class _Replay:
    def __init__(
        self, cases: CaseFile, case: Case, follow: bool, tally: Tally, make: Callable[[Cluster], Scheduler]
    ) -> None:
        self.make = make
        self.cases = cases
        self.case = case
        self.follow = follow
        self.tally = tally

    def run(self) -> Iterator[Difference]:
        """One test."""
        try:
            self.world = World(self._cluster(self.case.config), dict(self.cases.pods), self.make)
        except ConfigError as error:
            if not self.case.crash:
                yield self._difference(-1, "", "a sound configuration", str(error), "construction")
            return
        if self.case.crash:
            yield self._difference(-1, "", "a configuration that is refused", "a sound one", "construction")
            return
        self.checks = Checks(self.world)
        for number, step in enumerate(self.case.steps):
            pod = step.get("pod") or step.get("group") or ""
            try:
                found = self._step(number, step)
            except ConfigError as error:
                yield self._difference(number, pod, "a sound configuration", str(error), "construction")
                return
            except PlacementConflict as error:
                found = [("a free place", f"{error} is taken", "placement")]
            for expected, got, kind in found:
                yield self._difference(number, pod, expected, got, kind)

    def _cluster(self, name: str) -> Cluster:
        return read_cluster(self.cases.configs[name])

    def _difference(self, number: int, pod: str, expected: Any, got: Any, kind: str) -> Difference:
        return Difference(self.case.name, number, pod, expected, got, kind)

    def _step(self, number: int, step: Mapping[str, Any]) -> list[tuple[Any, Any, str]]:
        """Play one step; what differs, as (expected, got, kind)."""
        op, world = step["op"], self.world
        if op == "schedule":
            return self._schedule(number, step)
        if op == "newScheduler":
            world.begin(self._cluster(step["config"]))
        elif op == "addAllocated":
            self._add(step["pod"], bool(step.get("recovered")))
        elif op == "deleteAllocated":
            world.delete(step["pod"])
        elif op == "deleteUnallocated":
            world.withdraw(step["pod"])
        elif op in ("setBadNode", "setHealthyNode"):
            world.set_health(step["node"], op == "setHealthyNode")
        else:
            failure = self.checks.check(step)
            return [(*failure, op)] if failure else []
        return []

    def _schedule(self, number: int, step: Mapping[str, Any]) -> list[tuple[Any, Any, str]]:
        pod, world = step["pod"], self.world
        request, preempting = world.requests[pod], step.get("phase", "Preempting") == "Preempting"
        nodes = world.allowed(step.get("suggestedNodes", "all"), request.anywhere)
        if preempting:
            world.give_up_spoilt(pod, nodes)
        ours = world.decide(pod, nodes)
        group = recorded_group(world, self.case.steps, number)
        found = compare(world, pod, ours, step, group, fresh=request.group not in world.groups)
        done = ours
        if self.follow:
            done = self._followed(pod, ours, number, group, nodes, found)
        world.look(pod, nodes)
        world.carry_out(pod, done, preempting)
        if done.result == "bind":
            place, types = done.placement(), world.cluster.leaf_types
            self.checks.bound[pod] = (world.machine_of[place.node], {types[use.leaf] for use in place.leaves})
        self.tally.better += found.better
        return found.differences

    def _followed(
        self,
        pod: str,
        ours: Answer,
        number: int,
        group: dict[str, Spot],
        nodes: NodeIds,
        found: Compared,
    ) -> Answer:
        """The recorded answer; where a step records none, ours."""
        step = self.case.steps[number]
        told = {**told_of(step), **(step.get("observed") or {})}
        if told.get("result") is None or step.get("observedVaries"):
            return ours
        firm = not may_lose_claims(self.world, self.case.steps, number)
        follower = Follower(self.world, firm)
        done = follower.answer(pod, ours, told, group, nodes)
        if follower.problem:
            found.differ(told.get("result"), follower.problem, "follow")
        return done

    def _add(self, pod: str, recovered: bool) -> None:
        world, group = self.world, self.world.requests[pod].group
        if (recovered or pod not in world.answers) and group in world.last:
            if group not in world.groups:
                recover(world, group)
            if group in world.groups and pod in world.tasks:
                world.groups[group].pods[pod] = world.tasks[pod]
        else:
            world.add(pod)

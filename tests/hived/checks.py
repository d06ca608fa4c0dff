"""The steps of a case that assert something of the state."""

from collections.abc import Mapping
from typing import Any

from tests.hived.binding import Bindings, doomed_among
from tests.hived.compare import common_cell
from tests.hived.world import World, leaves_of

Failure = tuple[Any, Any] | None
"""What was expected and what is so, None where they agree."""


class Checks:
    """Answers assertions; `bound` has the last machine at which each pod was told to bind, and the types of its leaves
    there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bound: dict[str, tuple[str, set[str]]] = {}
        self.captured: dict[str, set[str]] = {}

    def check(self, step: Mapping[str, Any]) -> Failure:
        """Whether the step's assertion holds."""
        answers = {
            "assertGroupAbsent": self._absent,
            "assertGroupState": self._state,
            "assertGroupLazyPreempted": self._demoted,
            "assertGroupNotLazyPreempted": self._not_demoted,
            "assertPreassignedVirtualCellsHealth": self._health,
            "captureGroupPlacement": self._capture,
            "assertCapturedCells": self._cells,
            "assertSameNode": self._same_node,
            "assertNotSameNode": self._not_same_node,
            "assertGroupLCA": self._common_cell,
            "assertLeafTypesUsed": self._leaf_types,
        }
        expected, got = answers[step["op"]](step)
        return None if expected == got else (expected, got)

    def _absent(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        return None, self.world.state(step["group"])

    def _state(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        return step["state"], self.world.state(step["group"])

    def _demoted(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        return True, self.world.demoted(step["group"])

    def _not_demoted(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        return False, self.world.demoted(step["group"])

    def _health(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        """Health of the quota cells of one kind that are not pinned: all of them, or those nobody uses."""
        world = self.world
        bindings = Bindings.of(world.snapshot(), world.grid)
        kind = (step["vc"], step["chain"], step["cellType"])
        cells = [cell for cell in world.grid.quota.get(step["vc"], []) if cell[:3] == kind and not cell.pinned]
        free = [cell for cell in cells if cell not in bindings.bound]
        bad = sum(one.cells for one in doomed_among(bindings) if one[:3] == kind)
        health = ["Bad"] * bad + ["Healthy"] * (len(free) - bad)
        if step["which"] == "all":
            used = (bindings.bound[cell].physical for cell in cells if cell in bindings.bound)
            health += ["Healthy" if world.grid.bad.isdisjoint(one) else "Bad" for one in used]
        return [step["healthiness"]] * len(health), health

    def _capture(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        group = step["group"]
        mine = leaves_of(self.world.placements(group)) or {one.leaf for one in self.world.claims(group)}
        self.captured[step["as"]] = mine
        return True, bool(mine)

    def _cells(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        """Each captured leaf is used at the priority that is named, or is in the other state."""
        leaves = sorted(self.captured.get(step["capture"], ()))
        allowed = (f"Used at {step['ifUsedPriorityIs']}", step["otherwiseState"])
        states = {leaf: self._leaf_state(leaf) for leaf in leaves}
        wrong = {leaf: state for leaf, state in states.items() if state not in allowed}
        return (leaves, {}) if leaves else (True, False), (leaves, wrong) if leaves else (False, False)

    def _leaf_state(self, leaf: str) -> str:
        world = self.world
        claimed = any(one.leaf == leaf for one in world.snapshot().claims)
        holder = world.holders().get(leaf)
        if holder is None:
            return "Reserved" if claimed else "Free"
        if claimed:
            return "Reserving"
        use = next(one for one in world.uses(holder) if one.leaf == leaf)
        return f"Used at {world.groups[holder].job.priority if use.virtual_cell else -1}"

    def _same_node(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        return 1, len({self.bound.get(pod, (pod, set()))[0] for pod in step["pods"]})

    def _not_same_node(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        told = [self.bound[pod][0] for pod in step["pods"] if pod in self.bound]
        return (True, len(step["pods"])), (len(set(told)) > 1, len(told))

    def _common_cell(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        placements = self.world.last.get(step["group"], (None, ()))[1]
        there = self.world.leaf_node
        leaves = [use.leaf for one in placements for use in one.leaves if use.leaf in there]
        return step["cellType"], common_cell(self.world, leaves)[1] if leaves else None

    def _leaf_types(self, step: Mapping[str, Any]) -> tuple[Any, Any]:
        used: set[str] = set().union(*(self.bound.get(pod, ("", set()))[1] for pod in step["pods"]))
        return sorted(step["types"]), sorted(used)

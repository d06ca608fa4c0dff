"""What differs between our answer and a recorded one, nodes being the same up to renaming."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.hived.follow import Spot, recorded_victims, told_of
from tests.hived.world import Answer, World


class Difference(NamedTuple):
    """One difference: the test's name, the step's number from 0, the pod (or group) and what was looked at."""

    test: str
    step: int
    pod: str
    expected: Any
    got: Any
    kind: str


@dataclass(slots=True)
class Compared:
    """What a step came to: its differences as (expected, got, kind), and whether ours is better."""

    differences: list[tuple[Any, Any, str]] = field(default_factory=list)
    better: bool = False

    def differ(self, expected: Any, got: Any, kind: str) -> None:
        """Note a difference."""
        self.differences.append((expected, got, kind))


def compare(
    world: World, pod: str, ours: Answer, step: Mapping[str, Any], group: dict[str, Spot], fresh: bool
) -> Compared:
    """Our answer beside the record's. `group` is where the record puts the pods of the group as far as it says;
    `fresh` that the whole group is being placed now, by which its places are judged together.
    """
    told, found = told_of(step), Compared()
    expected = told.get("result")
    if expected is None:
        return found
    if not _result(found, expected, ours.result):
        return found
    if expected == ours.result == "preempt":
        _victims(world, found, told, ours)
    if expected == ours.result == "bind" and fresh:
        _places(world, found, ours, {} if step.get("observedVaries") else group)
    return found


def _result(found: Compared, expected: str, got: str) -> bool:
    """Whether the results agree. To bind where the record waits or preempts is better; a refusal is a wait."""
    plain = "wait" if expected == "user_error" else expected
    if plain == got or (plain == "not_bind" and got in ("wait", "preempt")):
        return True
    if got == "bind":
        found.better = True
    else:
        found.differ(expected, got, "result")
    return False


def _victims(world: World, found: Compared, told: Mapping[str, Any], ours: Answer) -> None:
    """The same groups, else no more GPUs; fewer are better."""
    theirs = recorded_victims(world, told)
    mine = world.pods_of(ours.victims)
    subset = told.get("victimsSubsetOf")
    if not theirs and subset is not None:
        if not mine <= set(subset):
            found.differ(sorted(subset), sorted(mine), "victims")
        return
    gpus = {True: _gpus(world, mine), False: _gpus(world, world.pods_of(theirs))}
    if theirs != ours.victims and gpus[True] > gpus[False]:
        found.differ(sorted(world.pods_of(theirs)), sorted(mine), "victims")
    found.better = theirs != ours.victims and gpus[True] < gpus[False]


def _gpus(world: World, pods: set[str]) -> int:
    return sum(world.requests[pod].gpus for pod in pods)


def _places(world: World, found: Compared, ours: Answer, group: dict[str, Spot]) -> None:
    """Count of GPUs, affinity, number of nodes and chain of the group's places."""
    spots = {name: _leaves(world, spot) for name, spot in group.items()}
    for name, leaves in spots.items():
        if leaves is None or len(leaves) != world.requests[name].gpus:
            found.differ(f"{world.requests[name].gpus} GPUs of {group[name].machine}", list(group[name].gpus), "counts")
            return
    for size in sorted({world.requests[name].gpus for name in spots}):
        theirs = [leaves for name, leaves in spots.items() if world.requests[name].gpus == size and leaves]
        mine = [[use.leaf for use in one.leaves] for one in ours.placements if one.role == str(size)]
        if any(len(leaves) != size for leaves in mine):
            found.differ(size, [len(leaves) for leaves in mine], "counts")
        _affinity(world, found, theirs, mine)
    if spots and len(spots) == len(ours.placements):
        _nodes(world, found, group, ours)


def _leaves(world: World, spot: Spot) -> list[str] | None:
    for node in world.nodes_of.get(spot.machine, []):
        leaves = [f"{node}:{gpu}" for gpu in spot.gpus]
        if all(leaf in world.leaf_node for leaf in leaves):
            return leaves
    return None


def _affinity(world: World, found: Compared, theirs: list[list[str]], mine: list[list[str]]) -> None:
    """Common cells of equal tasks, the tightest first: none of ours may be looser than the record's."""
    expected = sorted(common_cell(world, leaves) for leaves in theirs)
    got = sorted(common_cell(world, leaves) for leaves in mine)[: len(expected)]
    pairs = list(zip(expected, got, strict=False))
    if any(one < other for one, other in pairs):
        found.differ([name for _, name in expected], [name for _, name in got], "affinity")
    elif any(one > other for one, other in pairs):
        found.better = True


def common_cell(world: World, leaves: list[str]) -> tuple[int, str]:
    """The smallest cell around all these leaves: its level (0: a leaf) and type; a high level where there is none."""
    for level, name in enumerate(world.grid.types_around(leaves[0])):
        cell = world.grid.around[name, leaves[0]]
        if all(leaf in cell for leaf in leaves):
            return level, name
    return 1000, ""


def _nodes(world: World, found: Compared, group: dict[str, Spot], ours: Answer) -> None:
    """As many nodes for the whole group (fewer are better), in the same chain."""
    expected, got = len({spot.machine for spot in group.values()}), len({one.node for one in ours.placements})
    if got > expected:
        found.differ(expected, got, "nodes")
    found.better = found.better or got < expected
    chains = {world.grid.chain_of_leaf[(_leaves(world, spot) or [""])[0]] for spot in group.values()}
    mine = {world.grid.chain_of_leaf[use.leaf] for one in ours.placements for use in one.leaves}
    if chains != mine:
        found.differ(sorted(chains), sorted(mine), "chain")

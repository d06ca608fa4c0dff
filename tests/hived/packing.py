"""Which nodes and leaves a gang gets: HiveD's section 5, for the oracle of the tests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class View:
    """A node as the scheduler of a virtual cluster, or of opportunistic groups, sees it: leaves in tree order."""

    leaves: list[Any]
    sizes: tuple[int, ...]
    used: dict[int, int] = field(default_factory=dict)
    healthy: bool = True
    suggested: bool = True

    def free(self, floor: int) -> list[int]:
        """Positions that are free, then those held below a priority."""
        return [at for at in range(len(self.leaves)) if at not in self.used] + [
            at for at in range(len(self.leaves)) if at in self.used and self.used[at] < floor
        ]


Picked = tuple[int, list[Any]]
"""A task by its size, with its leaves."""


def rank(view: View, floor: int, crossing: bool) -> tuple[bool, bool, int, int]:
    """Healthy and suggested nodes first, then the fullest, then those with least of higher priority."""
    same = len(view.used) if crossing else sum(one == floor for one in view.used.values())
    higher = 0 if crossing else sum(one > floor for one in view.used.values())
    return (not view.healthy, not view.suggested, -same, higher)


def greedy(sizes: list[int], views: list[View], floor: int) -> list[Picked] | None:
    """One pass over the nodes: as many of the remaining tasks, the smallest first, as fit each."""
    left, found = list(sizes), list[Picked]()
    for view in views:
        free = view.free(floor)
        taken = 0
        here = []
        while left and len(free) - taken >= left[0]:
            if not view.healthy or not view.suggested:
                return None
            taken += left[0]
            here.append(left.pop(0))
        for size in here:
            picked = best_leaves(free, size, view.sizes)
            free = [one for one in free if one not in picked]
            found.append((size, [view.leaves[at] for at in picked]))
        if not left:
            return found
    return None


def best_leaves(free: list[int], count: int, sizes: tuple[int, ...]) -> list[int]:
    """The first combination, in the order of candidates, whose common cell is smallest."""
    for size in sorted(size for size in sizes if size >= count):
        for picked in first_in_cell(free, count, size):
            return picked
    raise AssertionError(f"{count} of {free}")


def first_in_cell(free: list[int], count: int, size: int) -> Iterator[list[int]]:
    for start, one in enumerate(free):
        same = [other for other in free[start:] if other // size == one // size]
        if len(same) >= count:
            yield same[:count]

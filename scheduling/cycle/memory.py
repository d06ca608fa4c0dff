"""What earlier cycles found that still holds, kept by the engine from one cycle to the next."""

from dataclasses import dataclass, field
from typing import NamedTuple

from scheduling.cells.request import JobShape
from scheduling.model.job import Job, TaskRef
from scheduling.model.snapshot import Running
from scheduling.placement.virtual_placement import VirtualPlacement


@dataclass(slots=True)
class CycleMemory:
    """What earlier cycles found that still holds. It saves work and changes no answer.

    `quiet`: virtual clusters whose last turn started nothing, with the signature of what it depended on: while that is
    unchanged the turn is skipped. `stuck`: shapes that found no loan, with the count of `given_back` then. `lent`: what
    a running job may move into its quota.
    """

    quiet: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    stuck: dict[int, int] = field(default_factory=dict)
    lent: dict[str, tuple[Running, Job, list["Lent"]]] = field(default_factory=dict)
    _assignments: dict[str, "KnownAssignments"] = field(default_factory=dict)

    def kept(self) -> "CycleMemory":
        """A copy, to return to when the cycle is rolled back and what it found no longer holds."""
        return CycleMemory(self.quiet.copy(), self.stuck.copy(), self.lent, self._assignments)

    def assignments_of(self, vc: str) -> "KnownAssignments":
        """The virtual leaves that jobs of the virtual cluster on loan would have."""
        if vc not in self._assignments:
            self._assignments[vc] = KnownAssignments()
        return self._assignments[vc]


LIMIT = 8192
"""How much of a kind is remembered."""


class Lent(NamedTuple):
    """Tasks on loan that move into the quota together: their shape, and to which choice of it their nodes belong (-1:
    none)."""

    tasks: tuple[TaskRef, ...]
    shape: JobShape
    choice: int


class KnownAssignments:
    """Virtual leaves for jobs on loan, in one state of the virtual cluster's cells: by what is reserved for jobs ahead,
    the job's shape, and which choice of it. What is reserved goes by a number: 0 is nothing, and a number is never used
    again."""

    def __init__(self) -> None:
        self._state = -1
        self._known: dict[tuple[int, int, int], list[VirtualPlacement] | None] = {}
        self._after: dict[tuple[int, int, int], int] = {}
        self._count = 0

    def of(self, state: int) -> dict[tuple[int, int, int], list[VirtualPlacement] | None]:
        """The known ones of this state of the cells, to be added to."""
        if state != self._state or len(self._known) >= LIMIT:
            self._state = state
            self._known.clear()
            self._after.clear()
        return self._known

    def after(self, reserved: int, shape: int, choice: int) -> int:
        """The number of what is reserved once this shape's leaves are, too."""
        key = reserved, shape, choice
        if key not in self._after:
            self._after[key] = self.another()
        return self._after[key]

    def another(self) -> int:
        """A number that was never used."""
        self._count += 1
        return self._count

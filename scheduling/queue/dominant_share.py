"""Who comes first when many want what is idle, and who pays first when it is wanted back.

Dominant resource fairness (Ghodsi et al., NSDI '11): of each claimant the resource counts of which it has the
largest part of the whole; the claimant with the smallest such share, divided by its weight, is served next, one
task at a time. Exact: shares are whole numbers over common denominators, so that equal shares are equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from math import ceil, lcm
from typing import TypeVar

from scheduling.model.description import Rules

Amounts = Mapping[str, int]
"""Resource -> amount: GPUs by leaf cell type, "cpu" in milli-cores, "memory" in MB."""

Item = TypeVar("Item")


class DominantShares:
    """What each claimant holds of a whole, and its weighted dominant share.

    `total` is the whole; of a resource of which there is none, nobody has a part. A claimant without a weight
    has 1; weights are greater than 0. `changes` counts how often a share may have changed.
    """

    def __init__(self, total: Amounts, weights: Mapping[str, int | Fraction] | None = None) -> None:
        there = {resource: amount for resource, amount in total.items() if amount > 0}
        self._whole = lcm(*there.values())
        self._unit = {resource: self._whole // amount for resource, amount in there.items()}
        exact = {name: Fraction(weight) for name, weight in (weights or {}).items()}
        self._weights = {name: (weight.numerator, weight.denominator) for name, weight in exact.items()}
        self._scale = lcm(*(numerator for numerator, _ in self._weights.values()))
        self._held: dict[str, dict[str, int]] = {}
        self._apart: dict[str, Amounts] = {}
        self._keys: dict[str, int] = {}
        self.changes = 0

    def copy(self) -> "DominantShares":
        """An independent one with the same contents."""
        twin = DominantShares({})
        twin._whole, twin._unit, twin._weights, twin._scale = self._whole, self._unit, self._weights, self._scale
        twin._held = {name: held.copy() for name, held in self._held.items()}
        twin._apart, twin._keys, twin.changes = self._apart.copy(), self._keys.copy(), self.changes
        return twin

    def take(self, name: str, amounts: Amounts) -> None:
        """The claimant gets these amounts."""
        held = self._held.setdefault(name, {})
        for resource, amount in amounts.items():
            held[resource] = held.get(resource, 0) + amount
        self._settle(name)

    def set_apart(self, name: str, amounts: Amounts) -> None:
        """Of what the claimant holds, these amounts do not count from now on, and no others."""
        if self._apart.get(name, {}) != amounts:
            self._apart[name] = amounts
            self._settle(name)

    def key(self, name: str) -> int:
        """The weighted dominant share as a whole number, to be compared with others of the same object."""
        return self._keys.get(name, 0)

    def _settle(self, name: str) -> None:
        unit, apart = self._unit, self._apart.get(name, {})
        held = self._held.get(name, {})
        parts = [(amount - apart.get(one, 0)) * unit.get(one, 0) for one, amount in held.items()]
        numerator, denominator = self._weights.get(name, (1, 1))
        self.changes += 1
        self._keys[name] = max(0, max(parts, default=0)) * denominator * (self._scale // numerator)


def turns(shares: DominantShares, queues: Mapping[str, Iterable[Item]]) -> Iterator[tuple[str, Item]]:
    """Progressive filling: whose turn it is, and the next of its queue.

    1. The smallest weighted dominant share; 2. the earlier of `queues`. Whoever asks enters what it gives with
    `shares.take` before it asks again; what finds no room is passed over. A claimant whose queue ends is out.
    """
    waiting = {name: iter(queue) for name, queue in queues.items()}
    heap = [(shares.key(name), number, name) for number, name in enumerate(waiting)]
    heapify(heap)
    while heap:
        _, number, name = heap[0]
        for item in waiting[name]:
            yield name, item
            heapreplace(heap, (shares.key(name), number, name))
            break
        else:
            heappop(heap)


def user_cap(rules: Rules, owned: int) -> int | None:
    """GPUs of one kind that one user of a virtual cluster may hold when it owns `owned` of them; None: no limit.

    The user limit factor of YARN's capacity scheduler times the quota, rounded up as there.
    """
    return None if rules.user_factor is None else ceil(Fraction(str(rules.user_factor)) * owned)

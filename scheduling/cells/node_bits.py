"""Cells inside a node as bits: which leaves to take, and how virtual leaves are matched to physical ones.

A node's leaves are the bits of an integer in the order of its tree, so that the cells of one level are aligned
blocks of equal size. `sizes` are these block sizes from a single leaf up to the whole cell, such as (1, 2, 4, 8).
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

Sizes = tuple[int, ...]


_WORD_BITS = 60
_WORD = (1 << _WORD_BITS) - 1  # masks of all nodes are long; numbers of this size are cheap


class Pick(NamedTuple):
    """Leaves for one task. The smaller, the better: first by `level` (the smallest cell that holds them all), then
    by `fit` (what is free in each cell around them, from that one up, so that large cells stay whole)."""

    level: int
    fit: tuple[int, ...]
    bits: int


def bits(mask: int) -> Iterator[int]:
    """Positions of the bits that are set, from the lowest."""
    base = 0
    while mask:
        word = mask & _WORD
        while word:
            low = word & -word
            yield base + low.bit_length() - 1
            word ^= low
        mask >>= _WORD_BITS
        base += _WORD_BITS


def lowest(mask: int, count: int) -> int:
    """The lowest `count` bits of the mask."""
    taken = 0
    for _ in range(count):
        low = mask & -mask
        taken |= low
        mask ^= low
    return taken


@lru_cache(maxsize=1 << 16)
def pick(sizes: Sizes, free: int, count: int) -> Pick | None:
    """`count` of the free leaves, in the smallest cell that has as many; None when there are too few."""
    if free.bit_count() < count:
        return None
    for level, size in enumerate(sizes):
        best: Pick | None = None
        for base in range(0, sizes[-1], size) if size >= count else ():
            block = free >> base & (1 << size) - 1
            if block.bit_count() >= count:
                fit = tuple(_around(free, base, above).bit_count() for above in sizes[level:])
                if best is None or fit < best.fit:
                    best = Pick(level, fit, _within(sizes[: level + 1], block, count) << base)
        if best is not None:
            return best
    return None


@lru_cache(maxsize=1 << 16)
def holds(sizes: Sizes, free: int, count: int, level: int) -> int:
    """How many times `count` of the free leaves are found in one cell of at most this level."""
    size = sizes[min(level, len(sizes) - 1)]
    return sum((free >> base & (1 << size) - 1).bit_count() // count for base in range(0, sizes[-1], size))


@lru_cache(maxsize=1 << 12)
def best_level(sizes: Sizes, count: int) -> int:
    """The level of the smallest cell that has so many leaves; beyond the last where none has."""
    return next((level for level, size in enumerate(sizes) if size >= count), len(sizes))


def _around(mask: int, position: int, size: int) -> int:
    """The bits of the aligned block of this size that the position lies in."""
    return mask >> position // size * size & (1 << size) - 1


def _within(sizes: Sizes, free: int, count: int) -> int:
    """`count` leaves of one cell none of whose parts has as many free: the fullest parts whole, then a rest."""
    if free.bit_count() == count or len(sizes) == 1:
        return free
    step = sizes[-2]
    parts = [(free >> base & (1 << step) - 1, base) for base in range(0, sizes[-1], step)]
    parts.sort(key=lambda part: -part[0].bit_count())
    taken = 0
    for place, (part, base) in enumerate(parts):
        left = count - taken.bit_count()
        if not left:
            break
        if part.bit_count() > left:
            enough = [one for one in parts[place:] if one[0].bit_count() >= left]
            rest, base = min(enough, key=lambda one: (one[0].bit_count(), one[1]))
            found = pick(sizes[:-1], rest, left)
            return taken | (found.bits << base if found else 0)
        taken |= part << base
    return taken


@lru_cache(maxsize=1 << 16)
def free_cells(sizes: Sizes, free: int) -> tuple[int, ...]:
    """How many cells of each level have all their leaves in `free`."""
    return tuple(
        sum(_around(free, base, size).bit_count() == size for base in range(0, sizes[-1], size)) for size in sizes
    )


@lru_cache(maxsize=1 << 16)
def whole_around(sizes: Sizes, free: int, base: int, size: int) -> tuple[int, ...]:
    """Levels above that of the cell of this size at `base` whose cell around it is wholly free."""
    return tuple(
        level for level, above in enumerate(sizes) if above > size and _around(free, base, above).bit_count() == above
    )


@lru_cache(maxsize=1 << 16)
def free_blocks(sizes: Sizes, free: int, size: int) -> tuple[tuple[int, int], ...]:
    """The wholly free cells of one size: (larger cells that taking it would split, its first leaf), fewest first."""
    found = []
    for base in range(0, sizes[-1], size):
        if _around(free, base, size).bit_count() == size:
            found.append((len(whole_around(sizes, free, base, size)), base))
    return tuple(sorted(found))


def agrees(sizes: Sizes, pairs: Mapping[int, int], virtual: int, physical: int) -> bool:
    """Whether this virtual leaf may lie on this physical one beside the pairs that lie already: at each level in one
    cell with just those whose virtual leaves are in one cell with it."""
    for size in sizes[:-1]:
        here, there = virtual // size, physical // size
        for one, other in pairs.items():
            if (one // size == here) != (other // size == there):
                return False
    return True


class Match:
    """Virtual leaves of one cell to physical leaves of one cell of the same shape (bits from the cell's base).

    Leaves that are matched already fix where the cells around them lie; every other virtual cell goes to the
    physical cell, of those not taken, with the most `cheap` leaves, the fullest first.
    HiveD calls this mapping the virtual placement.
    """

    def __init__(self, sizes: Sizes, pairs: dict[int, int], free: int, cheap: int) -> None:
        self._sizes = sizes
        self._pairs = pairs
        self._free = free
        self._cheap = cheap

    def run(self, wanted: int) -> dict[int, int] | None:
        """The physical leaf of each wanted virtual leaf; None when the free leaves cannot hold them."""
        return self._place(len(self._sizes) - 1, 0, 0, wanted)

    def _place(self, level: int, virtual: int, physical: int, wanted: int) -> dict[int, int] | None:
        if level == 0:
            return {virtual: physical} if self._free >> physical & 1 else None
        size = self._sizes[level - 1]
        fixed = {
            (bit - virtual) // size: (leaf - physical) // size
            for bit, leaf in self._pairs.items()
            if virtual <= bit < virtual + self._sizes[level]
        }
        counts = {number: _count(wanted, virtual + number * size, size) for number in range(self._sizes[level] // size)}
        parts = sorted(
            (number for number in counts if counts[number]),
            key=lambda one: (one not in fixed, -counts[one]),
        )
        return self._parts(level, (virtual, physical), wanted, parts, fixed)

    def _parts(
        self, level: int, at: tuple[int, int], wanted: int, parts: list[int], fixed: dict[int, int]
    ) -> dict[int, int] | None:
        """The parts (child cells by number) one after the other, with a step back where one finds no place."""
        if not parts:
            return {}
        virtual, physical = at
        size = self._sizes[level - 1]
        number, rest = parts[0], parts[1:]
        here = wanted & (1 << size) - 1 << virtual + number * size
        choices = [fixed[number]] if number in fixed else self._choices(level, physical, here, set(fixed.values()))
        for choice in choices:
            inner = self._place(level - 1, virtual + number * size, physical + choice * size, here)
            if inner is not None:
                others = self._parts(level, at, wanted, rest, {**fixed, number: choice})
                if others is not None:
                    return inner | others
                if level == 1:
                    break  # leaves are alike: another of them would change nothing for the rest
        return None

    def _choices(self, level: int, physical: int, here: int, taken: set[int]) -> list[int]:
        """Physical child cells that may hold these virtual leaves, those that cost least first."""
        size, count = self._sizes[level - 1], here.bit_count()
        ranked = []
        for number in range(self._sizes[level] // size):
            if number not in taken and _count(self._free, physical + number * size, size) >= count:
                cheap = _count(self._cheap, physical + number * size, size)
                ranked.append((max(0, count - cheap), -cheap, number))
        return [number for _, _, number in sorted(ranked)]


def _count(mask: int, base: int, size: int) -> int:
    return (mask >> base & (1 << size) - 1).bit_count()

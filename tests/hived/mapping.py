"""Physical leaves for virtual ones: HiveD's section 6, for the oracle of the tests."""

from scheduling.model.validate import short_of
from tests.hived.binding import Bindings, Grid, Leaves, QuotaCell

VLeaf = tuple[QuotaCell, int]
"""A leaf of a quota cell by its position."""


class Mapping:
    """Section 6: physical leaves for virtual ones."""

    def __init__(
        self, grid: Grid, node_of: dict[str, str], bindings: Bindings, lent: set[str], nodes: frozenset[str] | None
    ) -> None:
        self.grid = grid
        self.node_of = node_of
        self.bindings = bindings
        self.lent = lent
        self.nodes = nodes

    def map(self, wanted: list[VLeaf]) -> dict[VLeaf, str] | None:
        groups: dict[QuotaCell, list[int]] = {}
        for cell, at in wanted:
            groups.setdefault(cell, []).append(at)
        found: dict[VLeaf, str] = {}
        fresh = []
        for cell, positions in groups.items():
            bound = self.bindings.bound.get(cell)
            physical = bound.physical if bound else self.grid.pinned.get(cell.pinned)
            if physical is None:
                fresh.append((cell, positions))
                continue
            pairs = {at: physical.index(use.leaf) for at, use in bound.uses.items()} if bound else {}
            matched = self._match(cell, positions, physical, pairs)
            if matched is None:
                return None
            found |= {(cell, at): physical[place] for at, place in matched.items()}
        return self._allocate(fresh, self._free(), found, frozenset())

    def _free(self) -> list[tuple[str, str, Leaves]]:
        """Maximal free physical cells."""
        taken = self.bindings.taken()
        found = []
        for (chain, name), cells in self.grid.cells.items():
            for cell in cells:
                if not taken.isdisjoint(cell):
                    continue
                above = (parent for (_, parent) in self.grid.parents.get((chain, name), {}))
                parents = [
                    self.grid.around[parent, cell[0]] for parent in above if (parent, cell[0]) in self.grid.around
                ]
                if not any(taken.isdisjoint(parent) for parent in parents):
                    found.append((chain, name, cell))
        return found

    def _allocate(
        self,
        left: list[tuple[QuotaCell, list[int]]],
        free: list[tuple[str, str, Leaves]],
        found: dict[VLeaf, str],
        before: frozenset[QuotaCell],
    ) -> dict[VLeaf, str] | None:
        if not left:
            return found
        cell, positions = left[0]
        bound = before | {cell}
        for name, physical in self._candidates(cell, free):
            if not self._usable(physical):
                continue
            matched = self._match(cell, positions, physical, {})
            if matched is None:
                continue
            rest = self._cut(free, cell, name, physical)
            if not self._safe(rest, bound):
                continue
            more = found | {(cell, at): physical[place] for at, place in matched.items()}
            done = self._allocate(left[1:], rest, more, bound)
            if done is not None:
                return done
        return None

    def _candidates(self, cell: QuotaCell, free: list[tuple[str, str, Leaves]]) -> list[tuple[Leaves, Leaves]]:
        """Cells of the type, each with the free cell that it lies in: from the lowest level that has any."""
        made = []
        for chain, _, whole in free:
            if chain == cell.chain:
                for physical in self.grid.cells[chain, cell.cell_type]:
                    if physical[0] in whole and len(physical) <= len(whole):
                        made.append((len(whole), self._lent_around(physical, whole), whole, physical))
        made.sort(key=lambda one: (one[0], one[1]))
        return [(whole, physical) for _, _, whole, physical in made]

    def _lent_around(self, physical: Leaves, whole: Leaves) -> list[int]:
        """Lent leaves in each cell from the free one down to the physical one."""
        names = self.grid.types_around(physical[0])
        cells = [self.grid.around[name, physical[0]] for name in reversed(names)]
        return [self._lent(one) for one in cells if len(physical) <= len(one) <= len(whole)]

    def _lent(self, physical: Leaves) -> int:
        return sum(leaf in self.lent for leaf in physical)

    def _usable(self, physical: Leaves) -> bool:
        nodes = {self.node_of[leaf] for leaf in physical}
        if self.nodes is not None and not nodes & self.nodes:
            return False
        return len(nodes) > 1 or self.grid.bad.isdisjoint(physical)

    def _cut(
        self, free: list[tuple[str, str, Leaves]], cell: QuotaCell, whole: Leaves, physical: Leaves
    ) -> list[tuple[str, str, Leaves]]:
        """The free list after a cell was cut out of a free one."""
        rest = [one for one in free if one[2] != whole or one[0] != cell.chain]
        taken = set(physical)
        inside = [
            (chain, name, one)
            for (chain, name), cells in self.grid.cells.items()
            if chain == cell.chain
            for one in cells
            if one[0] in whole and len(one) < len(whole) and taken.isdisjoint(one)
        ]
        kept: list[tuple[str, str, Leaves]] = []
        for one in sorted(inside, key=lambda each: -len(each[2])):
            if not any(one[2][0] in other[2] for other in kept):
                kept.append(one)
        return rest + kept

    def _safe(self, free: list[tuple[str, str, Leaves]], bound: frozenset[QuotaCell]) -> bool:
        """Whether what is still owed can be cut out of what is left once these quota cells are bound."""
        owed: dict[tuple[str, str], int] = {}
        for vc in self.grid.quota:
            for cell in self.bindings.free(vc):
                if cell not in bound:
                    owed[cell.chain, cell.cell_type] = owed.get((cell.chain, cell.cell_type), 0) + 1
        available: dict[tuple[str, str], int] = {}
        for chain, _, whole in free:
            for (of, name), cells in self.grid.cells.items():
                if of == chain:
                    count = sum(one[0] in whole and len(one) <= len(whole) for one in cells)
                    available[chain, name] = available.get((chain, name), 0) + count
        return not short_of(owed, available, self.grid.parents)

    def _match(
        self, cell: QuotaCell, positions: list[int], physical: Leaves, pairs: dict[int, int]
    ) -> dict[int, int] | None:
        """Distinct physical places for virtual positions, level by level; used parts keep their places."""
        sizes = self.grid.sizes[cell.chain, cell.cell_type]
        return self._match_level(sizes, 0, 0, 0, sorted(positions), physical, pairs)

    def _match_level(
        self,
        sizes: tuple[int, ...],
        level: int,
        virtual: int,
        place: int,
        positions: list[int],
        physical: Leaves,
        pairs: dict[int, int],
    ) -> dict[int, int] | None:
        if level == len(sizes) - 1:
            leaf = physical[place]
            used = pairs.get(virtual)
            if used is not None and used != place:
                return None
            node = self.node_of[leaf]
            allowed = leaf not in self.grid.bad and (self.nodes is None or node in self.nodes)
            return {virtual: place} if allowed else None
        size = sizes[level + 1]
        needed: dict[int, list[int]] = {}
        for at in positions:
            needed.setdefault(at // size, []).append(at)
        mapped = {
            one // size: other // size for one, other in pairs.items() if other // sizes[level] == place // sizes[level]
        }
        blocks = range(place // size, (place + sizes[level]) // size)
        free = [one for one in blocks if one not in mapped.values()]
        free.sort(key=lambda one: self._lent(physical[one * size : (one + 1) * size]))
        return self._assign(sizes, level, list(needed.items()), free, mapped, physical, pairs)

    def _assign(
        self,
        sizes: tuple[int, ...],
        level: int,
        needed: list[tuple[int, list[int]]],
        free: list[int],
        mapped: dict[int, int],
        physical: Leaves,
        pairs: dict[int, int],
    ) -> dict[int, int] | None:
        if not needed:
            return {}
        size = sizes[level + 1]
        block, positions = needed[0]
        for one in [mapped[block]] if block in mapped else free:
            inner = self._match_level(sizes, level + 1, block * size, one * size, positions, physical, pairs)
            if inner is None:
                continue
            rest = self._assign(
                sizes, level, needed[1:], [other for other in free if other != one], mapped, physical, pairs
            )
            if rest is not None:
                return inner | rest
        return None

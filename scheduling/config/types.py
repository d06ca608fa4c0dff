"""The `cellTypes` and `skuTypes` of a configuration: what cells are made of."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduling.config.amounts import cpu_milli, memory_mb
from scheduling.config.faults import Faults
from scheduling.model.description import CellType

MOST_LEVELS = 32
"""Levels of cells from a top cell to a leaf; more are refused."""


class Sku(NamedTuple):
    """CPU (milli-cores) and memory (MB) that come with one leaf cell, which is a GPU, or of a server without GPUs."""

    cpu_milli: int
    memory_mb: int
    gpu: bool = True


@dataclass(frozen=True, slots=True)
class Types:
    """The cell types by name, and the SKUs by the name of their leaf type; None where no SKUs are given."""

    cells: dict[str, CellType]
    skus: dict[str, Sku] | None

    def path(self, name: str) -> list[str]:
        """The types from this one down to its leaf type."""
        found = [name]
        while found[-1] in self.cells:
            found.append(self.cells[found[-1]].child)
        return found

    def without_gpus(self, name: str) -> bool:
        """Whether cells of this type are (parts of) servers without GPUs."""
        sku = (self.skus or {}).get(self.path(name)[-1])
        return sku is not None and not sku.gpu

    def leaves(self, name: str) -> int:
        """Number of leaves of a cell of this type."""
        count = 1
        while name in self.cells:
            count, name = count * self.cells[name].child_count, self.cells[name].child
        return count

    def node_level(self, name: str) -> bool:
        """Whether a cell of this type is one node."""
        return name in self.cells and self.cells[name].node_level


def read_types(physical: dict[str, Any], faults: Faults) -> Types:
    """The types; such as contain themselves or are too deep are noted and left out."""
    path = "physicalCluster.cellTypes"
    cells = {}
    for name, given in faults.table(physical.get("cellTypes"), path).items():
        if faults.name(name, f"{path}.{name}", "./:"):
            cells[name] = _cell_type(name, given, f"{path}.{name}", faults)
    cells = {name: one for name, one in cells.items() if one.child}
    sound = {name: one for name, one in cells.items() if _is_sound(name, cells, f"{path}.{name}", faults)}
    types = Types(sound, _skus(physical, faults))
    if types.skus is not None:
        for leaf in sorted({types.path(name)[-1] for name in sound} - set(cells) - set(types.skus)):
            faults.add(f"physicalCluster.skuTypes.{leaf}", "is missing: a cell type is made of it")
    return types


def _cell_type(name: str, given: Any, path: str, faults: Faults) -> CellType:
    table = faults.table(given, path, ("childCellType", "childCellNumber", "isNodeLevel"))
    child = faults.name(table.get("childCellType"), f"{path}.childCellType", "./:")
    count = faults.count(table.get("childCellNumber"), f"{path}.childCellNumber", least=1)
    return CellType(name, child, count, faults.flag(table.get("isNodeLevel"), f"{path}.isNodeLevel"))


def _is_sound(name: str, cells: dict[str, CellType], path: str, faults: Faults) -> bool:
    here = [name]
    while here[-1] in cells:
        here.append(cells[here[-1]].child)
        if here[-1] in here[:-1]:
            faults.add(path, "is made of itself: %(types)s", types=" > ".join(here[:MOST_LEVELS]))
            return False
        if len(here) > MOST_LEVELS:
            faults.add(path, "has more than %(most)s levels of cells", most=MOST_LEVELS)
            return False
    nodes = [one for one in here if one in cells and cells[one].node_level]
    if len(nodes) > 1:
        faults.add(path, "has two levels that are a node: %(types)s", types=", ".join(nodes[:2]))
    return True


def _skus(physical: dict[str, Any], faults: Faults) -> dict[str, Sku] | None:
    path = "physicalCluster.skuTypes"
    if physical.get("skuTypes") is None:
        return None
    found = {}
    for name, given in faults.table(physical["skuTypes"], path).items():
        where = f"{path}.{name}"
        table = faults.table(given, where, ("gpu", "cpu", "memory"))
        gpus = table.get("gpu") or 0
        if isinstance(gpus, bool) or gpus not in (0, 1):
            faults.add(f"{where}.gpu", "must be 1, or 0 of a server without GPUs: a leaf cell is one GPU")
        cpu = cpu_milli(table.get("cpu"), f"{where}.cpu", faults)
        found[name] = Sku(cpu, memory_mb(table.get("memory"), f"{where}.memory", faults), gpus == 1)
    return found

"""The `virtualClusters` of a configuration: quota by paths through the cell types, and pinned cells."""

from typing import Any

from scheduling.config.faults import Faults, Words
from scheduling.config.types import Types
from scheduling.model.description import QuotaLine, VirtualCluster

HOST_NETWORK = "hostNetwork"


class Paths:
    """What a `cellType` of a virtual cluster may say: the chain, then every type down to the one that is owned."""

    def __init__(self, types: Types, tops: dict[str, list[str]]) -> None:
        self._found: dict[str, tuple[str, str]] = {}
        for chain, names in tops.items():
            for top in names:
                walk = [] if top == chain else [chain]
                for one in types.path(top):
                    walk.append(one)
                    self._found[".".join(walk)] = (chain, one)
                    if chain not in types.cells:
                        self._found.setdefault(f"{chain}.{one}", (chain, one))
        self._chains = sorted(tops)
        self._types = types

    def find(self, path: str) -> tuple[str, str] | None:
        """Chain and cell type of a path; None when there is none such."""
        return self._found.get(path)

    def without_gpus(self, path: str) -> bool:
        """Whether it leads to servers without GPUs, of which nobody has a quota here."""
        return self._types.without_gpus(path.split(".")[-1])

    def advice(self, path: str) -> Words:
        """What is wrong with a path that is not there."""
        first = path.split(".")[0]
        if first not in self._chains:
            if not self._chains:
                return Words("no cell of type %(type)s is among the physicalCells; there are none", {"type": first})
            known = ", ".join(self._chains)
            return Words(
                "no cell of type %(type)s is among the physicalCells; there are %(known)s",
                {"type": first, "known": known},
            )
        paths = [one for one, (chain, _) in self._found.items() if chain == first]
        return Words("there is no such path through the cell types; there are %(known)s", {"known": ", ".join(paths)})


def read_virtual_clusters(given: Any, paths: Paths, pinned: set[str], faults: Faults) -> tuple[VirtualCluster, ...]:
    """The virtual clusters as they come; lines of one that name the same cells are made one. `pinned` are ids."""
    owners: dict[str, str] = {}
    made = []
    for name, one in faults.table(given, "virtualClusters").items():
        path = f"virtualClusters.{name}"
        faults.name(name, path, "/:")
        table = faults.table(one, path, ("virtualCells", "pinnedCells", HOST_NETWORK))
        quota = _quota(table.get("virtualCells"), f"{path}.virtualCells", paths, faults)
        names = _pinned(table.get("pinnedCells"), f"{path}.pinnedCells", pinned, faults)
        for cell in names:
            if cell in owners:
                faults.add(f"{path}.pinnedCells", "%(cell)s belongs to %(vc)s already", cell=cell, vc=owners[cell])
            owners.setdefault(cell, name)
        said = table.get(HOST_NETWORK)
        flag = faults.flag(said, f"{path}.{HOST_NETWORK}")
        made.append(VirtualCluster(name, quota, names, host_network=None if said is None else flag))
    return tuple(made)


def _quota(given: Any, path: str, paths: Paths, faults: Faults) -> tuple[QuotaLine, ...]:
    found: dict[tuple[str, str], int] = {}
    for number, one in enumerate(faults.items(given, path)):
        where = f"{path}[{number}]"
        table = faults.table(one, where, ("cellType", "cellNumber"))
        name = faults.name(table.get("cellType"), f"{where}.cellType")
        count = faults.count(table.get("cellNumber"), f"{where}.cellNumber")
        kind = paths.find(name)
        if name and kind is None and not paths.without_gpus(name):
            faults.add(f"{where}.cellType", "%(name)s: %(advice)s", name=name[:200], advice=paths.advice(name))
        elif kind is not None:
            found[kind] = found.get(kind, 0) + count
    return tuple(QuotaLine(cell_type, count, chain) for (chain, cell_type), count in found.items())


def _pinned(given: Any, path: str, known: set[str], faults: Faults) -> tuple[str, ...]:
    found: list[str] = []
    for number, one in enumerate(faults.items(given, path)):
        where = f"{path}[{number}]"
        table = faults.table(one, where, ("pinnedCellId",))
        name = faults.name(table.get("pinnedCellId"), f"{where}.pinnedCellId")
        if name and name not in known:
            faults.add(f"{where}.pinnedCellId", "no physical cell is called %(name)s", name=name[:200])
        elif name in found:
            faults.add(f"{where}.pinnedCellId", "%(name)s is listed twice", name=name)
        elif name:
            found.append(name)
    return tuple(found)

"""The `physicalCells` of a configuration: nodes, the cells above them, and the cells with a name of their own; and its
`cpuNodes`, which have no cells."""

from typing import Any, NamedTuple

from scheduling.config.faults import Faults
from scheduling.config.types import Sku, Types
from scheduling.model.description import CellType, Leaf, Node, PinnedCell, UpperCell

CPU_TASKS = "cpuTasks"
"""The key of a node that says whether tasks without GPUs may be placed there; HiveD has no word for it."""

CPU_NODES = "cpuNodes"
"""The key of the list of servers without GPUs, which says the same of them."""

MOST_LEAVES = 200_000
"""Leaf cells of a cluster; more are refused."""

_KEYS = ("cellType", "cellAddress", "pinnedCellId", "cellChildren", CPU_TASKS)


class _Cell(NamedTuple):
    """A cell as written: its keys, its path, its type, and its position among its like (its address by default)."""

    table: dict[str, Any]
    path: str
    kind: CellType
    number: int


class _Machine(NamedTuple):
    """A node as written: one machine may be a node in several chains."""

    chain: str
    name: str


class _Pin(NamedTuple):
    id: str
    cell_type: str
    at: _Machine | str
    first: int = 0


class Physical:
    """Reads the top cells one after the other, then the servers without GPUs; `nodes`, `upper_cells` and `pinned_cells`
    then give the whole.

    `tops` has the types of the top cells of each chain, as they came.
    """

    def __init__(self, types: Types, faults: Faults) -> None:
        self.tops: dict[str, list[str]] = {}
        self._types = types
        self._faults = faults
        self._machines: dict[_Machine, tuple[str, list[int]]] = {}
        self._chains: dict[tuple[str, int], str] = {}
        self._cpu_tasks: dict[_Machine, bool | None] = {}
        self._cpu_nodes: dict[str, Node] = {}
        self._cpu_parts: dict[str, Node] = {}
        self._upper: dict[str, tuple[str, list[_Machine | str]]] = {}
        self._pins: dict[str, _Pin] = {}
        self._leaves = 0

    def read(self, cells: list[Any]) -> None:
        """Read the list of top cells. What a machine with GPUs has in cells without is a part of its node."""
        for number, given in enumerate(cells):
            path = f"physicalCluster.physicalCells[{number}]"
            table = self._faults.table(given, path, (*_KEYS, "chain"))
            top = self._faults.name(table.get("cellType"), f"{path}.cellType")
            chain = self._faults.name(table.get("chain", top), f"{path}.chain", "./:") if top else ""
            if not chain or not self._may_be_top(top, f"{path}.cellType"):
                continue
            if self._types.without_gpus(top):
                self._server(_Cell(table, path, self._types.cells[top], number))
            else:
                tops = self.tops.setdefault(chain, [])
                tops += [top] if top not in tops else []
                self._cell(_Cell(table, path, self._types.cells[top], number), chain, chain)

        for machine in self._machines:
            if machine.name in self._cpu_nodes:
                self._cpu_parts[machine.name] = self._cpu_nodes.pop(machine.name)

    def read_cpu_nodes(self, servers: list[Any]) -> None:
        """Read the list of servers without GPUs, once the cells are read."""
        chains = {one.name: one.chain for one in self._machines}
        for number, given in enumerate(servers):
            path = f"physicalCluster.{CPU_NODES}[{number}]"
            table = self._faults.table(given, path, ("cellAddress", CPU_TASKS))
            at = f"{path}.cellAddress"
            name = self._faults.name(table.get("cellAddress"), at, "/@")
            if name in chains:
                form = "%(node)s is a node of the chain %(chain)s already"
                self._faults.add(at, form, node=name, chain=chains[name])
            elif name in self._cpu_nodes:
                self._faults.add(at, "%(name)s is listed twice", name=name)
            flag = self._faults.flag(table.get(CPU_TASKS), f"{path}.{CPU_TASKS}", needed=True)
            if name:
                self._cpu_nodes.setdefault(name, Node(name, 0, 0, cpu_tasks=flag))

    def ids(self) -> dict[_Machine, str]:
        """The id of each node: its machine's name; in all chains but that of most of its GPUs also the chain."""
        first: dict[str, str] = {}
        for one, _ in sorted(self._machines.items(), key=lambda item: (-len(item[1][1]), item[0])):
            first.setdefault(one.name, one.chain)
        return {one: one.name if first[one.name] == one.chain else f"{one.name}@{one.chain}" for one in self._machines}

    def nodes(self) -> tuple[Node, ...]:
        """The nodes in order of their ids; those without GPUs have no leaves."""
        ids = self.ids()
        made = [self._node(one, ids[one], shape, indices) for one, (shape, indices) in self._machines.items()]
        made += self._cpu_nodes.values()
        return tuple(sorted(made, key=lambda node: node.id))

    def upper_cells(self) -> tuple[UpperCell, ...]:
        """The cells above the nodes in order of their addresses."""
        ids = self.ids()
        return tuple(
            UpperCell(address, kind, tuple(ids[one] if isinstance(one, _Machine) else one for one in children))
            for address, (kind, children) in sorted(self._upper.items())
        )

    def pinned_cells(self) -> tuple[PinnedCell, ...]:
        """The cells with a name, in order of it."""
        ids = self.ids()
        return tuple(
            PinnedCell(pin.id, pin.cell_type, ids[pin.at] if isinstance(pin.at, _Machine) else pin.at, pin.first)
            for _, pin in sorted(self._pins.items())
        )

    def _node(self, machine: _Machine, node_id: str, shape: str, indices: list[int]) -> Node:
        leaf_type = self._types.path(shape)[-1]
        leaves = tuple(Leaf(f"{node_id}:{index}", node_id, index, leaf_type) for index in indices)
        sku = (self._types.skus or {}).get(leaf_type, Sku(0, 0))
        cpu, memory = sku.cpu_milli * len(leaves), sku.memory_mb * len(leaves)
        chain, cpu_tasks = machine.chain, self._cpu_tasks[machine]
        if (part := self._cpu_parts.get(node_id)) is not None:
            cpu, memory = cpu + part.cpu_milli, memory + part.memory_mb
            cpu_tasks = part.cpu_tasks if cpu_tasks is None else cpu_tasks
        return Node(node_id, cpu, memory, leaves, sku=leaf_type, shape=shape, chain=chain, cpu_tasks=cpu_tasks)

    def _server(self, cell: _Cell) -> None:
        """Read a server without GPUs, which takes tasks without GPUs unless it says otherwise, or a cell above some."""
        if not cell.kind.node_level:
            for child in self._children(cell):
                self._server(child)
            return
        name, kind = self._address(cell), cell.kind.name
        if name in self._cpu_nodes:
            self._faults.add(f"{cell.path}.cellAddress", "%(name)s is listed twice", name=name)
        flag = self._faults.flag(cell.table.get(CPU_TASKS, True), f"{cell.path}.{CPU_TASKS}")
        sku, parts = (self._types.skus or {})[self._types.path(kind)[-1]], self._types.leaves(kind)
        self._cpu_nodes[name] = Node(name, sku.cpu_milli * parts, sku.memory_mb * parts, cpu_tasks=flag)

    def _may_be_top(self, top: str, path: str) -> bool:
        if top not in self._types.cells:
            self._faults.add(path, "%(type)s is no cell type of this cluster", type=top)
            return False
        if not any(map(self._types.node_level, self._types.path(top))):
            self._faults.add(path, "neither %(type)s nor a type below it is a node (isNodeLevel)", type=top)
            return False
        self._leaves += self._types.leaves(top)
        if self._leaves > MOST_LEAVES:
            form = "makes %(leaves)s leaf cells in all; at most %(most)s can be read"
            self._faults.add(path, form, leaves=self._leaves, most=MOST_LEAVES)
            return False
        return True

    def _cell(self, cell: _Cell, chain: str, above: str) -> _Machine | str:
        """Read a node, or a cell above the nodes with all below it; the machine, or the cell's address."""
        own = self._address(cell)
        if cell.kind.node_level:
            return self._machine(cell, _Machine(chain, own))
        address = f"{above}/{own}"
        if address in self._upper:
            self._faults.add(cell.path, "another cell has the address %(address)s", address=own)
        self._pin(cell, address)
        self._no_cpu_tasks(cell)
        children: list[_Machine | str] = []
        self._upper[address] = (cell.kind.name, children)
        children += [self._cell(child, chain, address) for child in self._children(cell)]
        return address

    def _machine(self, cell: _Cell, machine: _Machine) -> _Machine:
        if "@" in machine.name:
            form = "the name of a node must not hold '@': %(node)s"
            self._faults.add(f"{cell.path}.cellAddress", form, node=machine.name)
        if machine in self._machines:
            form = "%(node)s is a node of the chain %(chain)s already"
            self._faults.add(cell.path, form, node=machine.name, chain=machine.chain)
        self._pin(cell, machine)
        indices: list[int] = []
        # Below a node the positions start again: the leaves are numbered by their place in the node's tree.
        for child in self._children(cell._replace(number=0)):
            self._inside(child, machine, indices)
        for index in sorted({one for one in indices if indices.count(one) > 1}):
            self._faults.add(cell.path, "two leaf cells have the address %(address)s", address=index)
        self._no_gpu_twice(cell, machine, indices)
        self._machines[machine] = (cell.kind.name, indices)
        said = cell.table.get(CPU_TASKS)
        flag = self._faults.flag(said, f"{cell.path}.{CPU_TASKS}")
        self._cpu_tasks[machine] = None if said is None else flag
        return machine

    def _no_gpu_twice(self, cell: _Cell, machine: _Machine, indices: list[int]) -> None:
        """A machine may stand in two chains, each of its GPUs in one."""
        for index in indices:
            chain = self._chains.setdefault((machine.name, index), machine.chain)
            if chain != machine.chain:
                form = "GPU %(index)s of %(node)s is in the chain %(chain)s already"
                self._faults.add(cell.path, form, index=index, node=machine.name, chain=chain)
                return

    def _no_cpu_tasks(self, cell: _Cell) -> None:
        if CPU_TASKS in cell.table:
            self._faults.add(f"{cell.path}.{CPU_TASKS}", "is for a node; %(type)s is none", type=cell.kind.name)

    def _inside(self, cell: _Cell, machine: _Machine, indices: list[int]) -> None:
        self._pin(cell, machine, len(indices))
        self._no_cpu_tasks(cell)
        if cell.kind.child:
            for child in self._children(cell):
                self._inside(child, machine, indices)
            return
        own = self._address(cell)
        if own.isdecimal() and own.isascii() and len(own) <= 6:
            indices.append(int(own))
        else:
            form = "of a leaf cell must be a GPU's number, not %(value)s"
            self._faults.add(f"{cell.path}.cellAddress", form, value=repr(own[:40]))
            indices.append(cell.number)

    def _children(self, cell: _Cell) -> list[_Cell]:
        kind, path = cell.kind, f"{cell.path}.cellChildren"
        given = self._faults.items(cell.table.get("cellChildren"), path)
        if given and len(given) != kind.child_count:
            form = "has %(given)s cells; a %(type)s is made of %(children)s"
            self._faults.add(path, form, given=len(given), type=kind.name, children=kind.child_count)
        if len(given) != kind.child_count:
            given = [None] * kind.child_count
        child = self._types.cells.get(kind.child) or CellType(kind.child, "", 0)
        first = cell.number * kind.child_count
        return [self._child(one, f"{path}[{number}]", child, first + number) for number, one in enumerate(given)]

    def _child(self, given: Any, path: str, kind: CellType, number: int) -> _Cell:
        table = self._faults.table(given, path, _KEYS) if given is not None else {}
        if table.get("cellType", kind.name) != kind.name:
            self._faults.add(f"{path}.cellType", "must be %(type)s here", type=kind.name)
        if not kind.child and table.get("cellChildren"):
            form = "%(type)s is a leaf cell, which has no children"
            self._faults.add(f"{path}.cellChildren", form, type=kind.name)
        return _Cell(table, path, kind, number)

    def _address(self, cell: _Cell) -> str:
        given = cell.table.get("cellAddress")
        if given is None or given == "":
            return str(cell.number)
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < MOST_LEAVES:
            return str(given)
        return self._faults.name(given, f"{cell.path}.cellAddress", "/") or str(cell.number)

    def _pin(self, cell: _Cell, at: _Machine | str, first: int = 0) -> None:
        given = cell.table.get("pinnedCellId")
        if given is None or given == "":
            return
        path = f"{cell.path}.pinnedCellId"
        name = self._faults.name(given, path, "/:")
        if name in self._pins:
            self._faults.add(path, "another cell is called %(name)s already", name=name)
        elif name:
            self._pins[name] = _Pin(name, cell.kind.name, at, first)

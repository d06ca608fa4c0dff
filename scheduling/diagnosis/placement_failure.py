"""Why tasks that no quota and no order holds back find no place: fragmented, bad nodes, or CPU and memory."""

from collections.abc import Callable

from scheduling.cells.allocator import Allocator
from scheduling.cells.node_bits import bits
from scheduling.cells.resources import UNLIMITED, Demand, FreeResources, nodes_for, nodes_of_kind
from scheduling.diagnosis import reasons as explain
from scheduling.model.description import NodeState
from scheduling.model.elastic import whole_name
from scheduling.model.plan import Code, Reason
from scheduling.placement.attempt import kept_beside
from scheduling.placement.bin_packing import Bins, Group, find, holes


class WhatIf(Bins):
    """The nodes as they would be for a job if some obstacles were gone.

    `owner`: GPUs on loan count as free, as they do for a guaranteed job; `served`: every node open and every
    GPU healthy; `roomy`: CPU and memory without end.
    """

    limited = True

    def __init__(self, allocator: Allocator, allowed: int, *, owner: bool, served: bool, roomy: bool) -> None:
        self._allocator, self._roomy = allocator, roomy
        self._allowed = allowed if served else allowed & allocator.open_nodes
        groups = []
        for (shape, _, lent, busy, blocked), members in allocator.groups.items():
            sizes = allocator.shapes[shape].sizes
            in_use = busy & ~lent if owner else busy
            for number in bits(members & self._allowed):
                away = allocator.claimed[number] if served else blocked
                groups.append(Group(sizes, allocator.full[number] & ~in_use & ~away, 1 << number))
        super().__init__(groups)

    def free(self, number: int) -> int:
        """Free GPUs of a node."""
        return next((group.count for group in self.groups if group.members == 1 << number), 0)

    def room(self, number: int, free: int) -> FreeResources:
        """What the node has left beside what is kept for claims."""
        if self._roomy:
            return FreeResources(free, UNLIMITED, UNLIMITED, 0, 0)
        allocator = self._allocator
        cpu, memory = kept_beside(allocator, number, ()) if allocator.kept[number] else (0, 0)
        cpu, memory = allocator.cpu[number] - cpu, allocator.memory[number] - memory
        return FreeResources(free, cpu, memory, *allocator.layout.reserves[number])

    def takes(self, demand: Demand) -> int:
        """Nodes on which tasks of the demand may be at all."""
        return self._allowed & nodes_for(self._allocator.layout, demand)

    def shut(self, demand: Demand) -> int:
        """How many more nodes there would be for its tasks, but take none without GPUs."""
        layout = self._allocator.layout
        return 0 if demand.gpus else (self._allowed & nodes_of_kind(layout, demand) & ~layout.cpu_nodes).bit_count()

    def gpus(self, demand: Demand) -> int:
        """Free GPUs of the demand's kind."""
        nodes = self.takes(demand)
        return sum(group.count for group in self.groups if group.members & nodes)


Fits = Callable[[bool], bool]
"""Whether the job found a place where CPU and memory are no matter, with every GPU in service (True) or as it is."""


def no_room(
    allocator: Allocator, parts: tuple[Demand, ...], allowed: int, *, owner: bool, fits: Fits | None = None
) -> Reason:
    """Why tasks that no quota and no order holds back find no place.

    `allowed` are the nodes the job names. What-ifs, in turn: every GPU in service and CPU and memory no matter
    (still no place: fragmented); CPU and memory no matter (no place: bad nodes); else CPU or memory. `fits` answers
    them for tasks that lie in cells.
    """
    served = WhatIf(allocator, allowed, owner=owner, served=True, roomy=True)
    now = WhatIf(allocator, allowed, owner=owner, served=False, roomy=False)
    roomy = WhatIf(allocator, allowed, owner=owner, served=False, roomy=True)
    if not (fits(True) if fits else find(served, parts) is not None):
        return _fragmented(allocator, _culprits(served, parts), served, now)
    if not (fits(False) if fits else find(roomy, parts) is not None):
        return _bad_nodes(allocator, _culprits(roomy, parts), served, roomy)
    return _resources(allocator, parts, now)


def _culprits(bins: Bins, parts: tuple[Demand, ...]) -> tuple[Demand, ...]:
    """The demands of the first cell type for which there is no place; all where only together they have none."""
    for cell_type in sorted({demand.cell_type for demand in parts}, reverse=True):
        alike = tuple(demand for demand in parts if demand.cell_type == cell_type)
        if find(bins, alike) is None:
            return alike
    return parts


def _fragmented(allocator: Allocator, parts: tuple[Demand, ...], served: WhatIf, now: WhatIf) -> Reason:
    demand = parts[0]
    if not demand.gpus and (shut := served.shut(demand)) and not served.takes(demand):
        return explain.no_cpu_node(shut)
    hole, where = _largest_hole(allocator, now, demand)
    free = now.gpus(demand)
    numbers: dict[str, int | str] = {
        "sku": demand.cell_type, "tasks": sum(part.count for part in parts), "needed": demand.gpus,
        "needed_in_all": sum(part.gpus * part.count for part in parts), "largest": hole, "node": where,
        "free": free,
    }  # fmt: skip
    if not demand.gpus:
        return Reason(Code.FRAGMENTED, numbers, "no node of the kind that this job asks for has room for it")
    if numbers["tasks"] == 1:
        there = f"the most that one node has free is {hole} ({where})" if hole else "no GPU of this kind is free"
        return Reason(Code.FRAGMENTED, numbers, f"it needs {_gpus(demand)} on one node; {there}")
    there = (
        f"{free} {explain.verb_is(free)} free, at most {hole} of them on one node ({where})" if hole else "none is free"
    )
    tasks = " and ".join(_tasks(part) for part in parts if part.gpus)
    return Reason(Code.FRAGMENTED, numbers, f"it needs {tasks} at once; {there}")


def _bad_nodes(allocator: Allocator, parts: tuple[Demand, ...], served: WhatIf, roomy: WhatIf) -> Reason:
    demand = parts[0]
    free = roomy.gpus(demand)
    out = served.gpus(demand) - free
    faults = _faults(allocator, served.takes(demand))
    needed = sum(part.gpus * part.count for part in parts if part.cell_type == demand.cell_type)
    listed = ", ".join(faults[:5]) + (f" and {len(faults) - 5} more" if len(faults) > 5 else "")
    numbers: dict[str, int | str] = {
        "sku": demand.cell_type, "needed": needed, "free": free, "unusable": out,
        "nodes": len(faults), "where": listed,
    }  # fmt: skip
    if not demand.gpus:
        return Reason(Code.BAD_NODES, numbers, f"no node that this job may run on can be used now: {listed}")
    unused = f"{out} more cannot be used now: {listed}"
    sentence = f"it needs {needed} {demand.cell_type}; {free} {explain.verb_is(free)} free, and {unused}"
    return Reason(Code.BAD_NODES, numbers, sentence)


def _faults(allocator: Allocator, nodes: int) -> list[str]:
    """What keeps each of these nodes from giving all its GPUs, in words."""
    found = []
    for number in bits(nodes):
        node = allocator.layout.nodes[number]
        sick = sum(not leaf.healthy for leaf in node.leaves)
        if node.state != NodeState.OPEN:
            found.append(f"{node.id} ({node.state})")
        elif sick:
            found.append(f"{node.id} ({sick} faulty GPU{'s' if sick > 1 else ''})")
    return found


def _resources(allocator: Allocator, parts: tuple[Demand, ...], now: WhatIf) -> Reason:
    alone = [demand for demand in parts if find(now, (demand,)) is None]
    demand = alone[0] if alone else max(parts, key=lambda part: (part.cpu_milli, part.memory_mb))
    here = [group for group in now.groups if group.members & now.takes(demand)]
    rooms = {}
    for group in [one for one in here if one.count >= demand.gpus] or here:
        number = group.members.bit_length() - 1
        rooms[number] = now.room(number, group.count)
    best = max(rooms, key=lambda one: (_headroom(rooms[one], demand), -one))
    cpu, memory = _free_for(rooms[best], demand) if alone else _free_for_all(rooms[best], parts)
    kept_cpu, kept_memory = max(0, rooms[best].cpu_milli) - cpu, max(0, rooms[best].memory_mb) - memory
    node = allocator.layout.nodes[best].id
    numbers: dict[str, int | str] = {
        "cpu_milli": demand.cpu_milli, "memory_mb": demand.memory_mb, "tasks": demand.count, "node": node,
        "free_cpu_milli": cpu, "free_memory_mb": memory,
    }  # fmt: skip
    each = f"{demand.count} tasks of " if demand.count > 1 else ""
    needs = f"it needs {each}{_amounts(demand.cpu_milli, demand.memory_mb)}"
    needs += f" with {_gpus(demand)}" if demand.gpus else ""
    if not alone:
        all_cpu = sum(part.cpu_milli * part.count for part in parts)
        all_memory = sum(part.memory_mb * part.count for part in parts)
        numbers |= {"all_cpu_milli": all_cpu, "all_memory_mb": all_memory}
        needs = f"each of its tasks would fit, but not all together, which need {_amounts(all_cpu, all_memory)}"
    sentence = f"{needs}; the node with the most room, {node}, has {_cpu(cpu)} and {_memory(memory)} free"
    if kept_cpu or kept_memory:
        numbers |= {"kept_cpu_milli": kept_cpu, "kept_memory_mb": kept_memory}
        kept = _amounts(kept_cpu, kept_memory)
        sentence = f"{sentence} for it; {kept} more are kept there for jobs that use its idle GPUs"
    if who := _in_its_way(allocator, best, demand, cpu < demand.cpu_milli):
        job, beyond_cpu, beyond_memory = who
        numbers |= {"job": job, "beyond_cpu_milli": beyond_cpu, "beyond_memory_mb": beyond_memory}
        beyond = _amounts(beyond_cpu, beyond_memory)
        sentence = f"{sentence}; job {job} has {beyond} there beyond the share of its GPUs"
    reason = Reason(Code.RESOURCES, numbers, sentence)
    shut = now.shut(demand)
    return explain.besides_shut(reason, shut) if shut else reason


def _in_its_way(allocator: Allocator, number: int, demand: Demand, short_of_cpu: bool) -> tuple[str, int, int] | None:
    """For a task that wants no more of the node than the share of its GPUs: the job that has most of the CPU (else
    memory) beyond the share of its own, and how much it has beyond of both."""
    cpu, memory = allocator.layout.shares[number]
    if demand.cpu_milli > cpu * demand.gpus or demand.memory_mb > memory * demand.gpus:
        return None
    beyond: dict[str, list[int]] = {}
    for (job, _), placement in allocator.tasks[number].items():
        gpus, sums = len(placement.leaves), beyond.setdefault(whole_name(job), [0, 0])
        sums[0] += max(0, placement.cpu_milli - cpu * gpus)
        sums[1] += max(0, placement.memory_mb - memory * gpus)
    which = 0 if short_of_cpu else 1
    job = min(beyond, key=lambda one: (-beyond[one][which], one), default="")
    return (job, beyond[job][0], beyond[job][1]) if job and beyond[job][which] else None


def _free_for(room: FreeResources, demand: Demand) -> tuple[int, int]:
    """CPU and memory that a task of this demand may use of a node with this room."""
    return _beside(room, room.gpus - demand.gpus if demand.modest else 0)


def _free_for_all(room: FreeResources, parts: tuple[Demand, ...]) -> tuple[int, int]:
    """CPU and memory that all these tasks may use of it together."""
    idle = max(0, room.gpus - sum(part.gpus * part.count for part in parts))
    return _beside(room, idle if any(part.modest for part in parts) else 0)


def _beside(room: FreeResources, idle: int) -> tuple[int, int]:
    """CPU and memory beside the reserve of so many GPUs that stay idle."""
    return (
        max(0, room.cpu_milli - room.reserve_cpu_milli * idle),
        max(0, room.memory_mb - room.reserve_memory_mb * idle),
    )


def _headroom(room: FreeResources, demand: Demand) -> tuple[int, int]:
    """How near the node comes to one task: the scarcer of CPU and memory, in thousandths, then their sum."""
    cpu, memory = _free_for(room, demand)
    by_cpu = 1000 * cpu // demand.cpu_milli if demand.cpu_milli else 1_000_000
    by_memory = 1000 * memory // demand.memory_mb if demand.memory_mb else 1_000_000
    return (min(by_cpu, by_memory), by_cpu + by_memory)


def _largest_hole(allocator: Allocator, now: WhatIf, demand: Demand) -> tuple[int, str]:
    """Size of the largest hole and the first node that has it; (0, "") when there is none."""
    nodes = now.takes(demand)
    found = [(-leaves, number) for leaves, number in holes(now.groups) if leaves and nodes >> number & 1]
    if not found:
        return 0, ""
    leaves, number = min(found)
    return -leaves, allocator.layout.nodes[number].id


def _tasks(demand: Demand) -> str:
    return f"1 task with {_gpus(demand)}" if demand.count == 1 else f"{demand.count} tasks with {_gpus(demand)} each"


def _gpus(demand: Demand) -> str:
    return f"{demand.gpus} {demand.cell_type}"


def _amounts(cpu_milli: int, memory_mb: int) -> str:
    cpu = [_cpu(cpu_milli)] if cpu_milli else []
    return " and ".join([*cpu, *([_memory(memory_mb)] if memory_mb else [])])


def _cpu(milli: int) -> str:
    return f"{milli / 1000:g} CPU"


def _memory(megabytes: int) -> str:
    return f"{round(megabytes / 1024, 1):g} GB" if megabytes >= 1024 else f"{megabytes} MB"

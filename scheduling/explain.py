"""Why a job waits: one dominant reason, with the numbers it rests on and a sentence for people.

Each reason is true by a what-if: the obstacle it names blocks the job even where those after it are removed.
"""

from scheduling.cells import NodeState
from scheduling.decisions import Code, Reason
from scheduling.ledger import Ledger, bits
from scheduling.placement import eligible, find
from scheduling.resources import Demand


def paused() -> Reason:
    """The job is held by its owner or an administrator."""
    return Reason(Code.PAUSED, {}, "the job is paused")


def dependency(open_jobs: tuple[str, ...]) -> Reason:
    """Jobs that must be over first are not."""
    first = open_jobs[0]
    more = f" and {len(open_jobs) - 1} more" if len(open_jobs) > 1 else ""
    sentence = f"waits for job {first}{more} to end"
    return Reason(Code.DEPENDENCY, {"jobs": len(open_jobs), "first": first}, sentence)


def no_virtual_cluster(vc: str) -> Reason:
    """The job's virtual cluster is not part of the cluster (any more)."""
    return Reason(Code.QUOTA, {"vc": vc, "owned": 0}, f"there is no virtual cluster {vc}")


def no_gpus_owned(vc: str) -> Reason:
    """A job that takes any SKU of its virtual cluster, which owns none."""
    return Reason(Code.QUOTA, {"vc": vc, "owned": 0}, f"team {vc} owns no GPUs")


def quota(vc: str, cell_type: str, held: int, owned: int, needed: int) -> Reason:
    """The virtual cluster's free virtual cells are fewer than the job needs."""
    numbers: dict[str, int | str] = {"vc": vc, "sku": cell_type, "held": held, "owned": owned, "needed": needed}
    sentence = f"team {vc} holds {held} of {owned} {cell_type}; this job needs {needed}"
    return Reason(Code.QUOTA, numbers, sentence)


def order(ahead: int, by_priority: int) -> Reason:
    """Jobs of the same team that want the same SKU come first and wait themselves."""
    by_submission = ahead - by_priority
    parts = []
    if by_priority:
        parts.append(f"{by_priority} by priority")
    if by_submission:
        parts.append(f"{by_submission} by earlier submission")
    numbers: dict[str, int | str] = {"ahead": ahead, "by_priority": by_priority, "by_submission": by_submission}
    verb = "is" if ahead == 1 else "are"
    return Reason(Code.ORDER, numbers, f"{ahead} of your team {verb} ahead: {', '.join(parts)}")


def lend_limit(cell_type: str, free: int, owed: int, needed: int) -> Reason:
    """An opportunistic job finds too few free GPUs that no team's quota is owed."""
    numbers: dict[str, int | str] = {"sku": cell_type, "free": free, "owed": owed, "needed": needed}
    sentence = (
        f"{free} {cell_type} {_is(free)} free and teams may still fill {owed} of their quota; "
        f"this opportunistic job needs {needed} beyond that"
    )
    return Reason(Code.LEND_LIMIT, numbers, sentence)


def no_room(ledger: Ledger, parts: tuple[Demand, ...], preferred: int, allowed: int) -> Reason:
    """Why tasks that no quota and no order holds back find no place.

    `allowed` are the nodes the job names, `preferred` those of them that it does not avoid. What-ifs, in
    turn: every GPU in service and CPU and memory no matter (still no place: fragmented); CPU and memory no
    matter (no place: bad nodes); else CPU or memory.
    """
    served = ledger.all_in_service().without_limits()
    if find(served, parts, allowed) is None:
        return _fragmented(ledger, _culprits(served, parts, allowed), preferred)
    roomy = ledger.without_limits()
    if find(roomy, parts, preferred) is None:
        return _bad_nodes(ledger, _culprits(roomy, parts, preferred), preferred, allowed)
    return _resources(ledger, parts, preferred)


def _culprits(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> tuple[Demand, ...]:
    """The demands of the first cell type for which there is no place; all where only together they have none."""
    for cell_type in sorted({demand.cell_type for demand in parts}, reverse=True):
        alike = tuple(demand for demand in parts if demand.cell_type == cell_type)
        if find(ledger, alike, allowed) is None:
            return alike
    return parts


def _fragmented(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> Reason:
    demand = parts[0]
    nodes = eligible(ledger, demand, allowed)
    hole, where = _largest_hole(ledger, nodes)
    free = ledger.free_gpus(nodes)
    numbers: dict[str, int | str] = {
        "sku": demand.cell_type, "tasks": sum(part.count for part in parts), "needed": demand.gpus,
        "needed_in_all": sum(part.gpus * part.count for part in parts), "largest": hole, "node": where,
        "free": free,
    }  # fmt: skip
    if not demand.gpus:
        return Reason(Code.FRAGMENTED, numbers, "no node of the kind that this job names takes it")
    there = f"the largest free hole is {hole} on {where}" if hole else "no GPU of this kind is free"
    if numbers["tasks"] == 1:
        return Reason(Code.FRAGMENTED, numbers, f"needs {_gpus(demand)} on one node; {there}")
    tasks = ", ".join(f"{part.count} x {_gpus(part)}" for part in parts if part.gpus)
    sentence = f"needs {tasks} at once, each task on one node; {there} ({free} {_is(free)} free)"
    return Reason(Code.FRAGMENTED, numbers, sentence)


def _bad_nodes(ledger: Ledger, parts: tuple[Demand, ...], preferred: int, allowed: int) -> Reason:
    demand = parts[0]
    served = ledger.all_in_service()
    kind = eligible(served, demand, allowed)
    free = ledger.free_gpus(eligible(ledger, demand, preferred))
    out = served.free_gpus(kind) - free
    faults = _faults(ledger, kind, preferred)
    needed = sum(part.gpus * part.count for part in parts if part.cell_type == demand.cell_type)
    listed = ", ".join(faults[:5]) + (f" and {len(faults) - 5} more" if len(faults) > 5 else "")
    numbers: dict[str, int | str] = {
        "sku": demand.cell_type, "needed": needed, "free": free, "unusable": out,
        "nodes": len(faults), "where": listed,
    }  # fmt: skip
    if not demand.gpus:
        return Reason(Code.BAD_NODES, numbers, f"no node that could take this job can be used: {listed}")
    sentence = f"needs {needed} {demand.cell_type}; {free} {_is(free)} free, {out} more cannot be used: {listed}"
    return Reason(Code.BAD_NODES, numbers, sentence)


def _faults(ledger: Ledger, nodes: int, preferred: int) -> list[str]:
    """What keeps each of these nodes from giving all its GPUs, in words."""
    found = []
    for number in bits(nodes):
        node = ledger.layout.nodes[number]
        sick = sum(not leaf.healthy for leaf in node.leaves)
        if node.state != NodeState.OPEN:
            found.append(f"{node.id} ({node.state})")
        elif not preferred >> number & 1:
            found.append(f"{node.id} (failed this job before)")
        elif sick:
            found.append(f"{node.id} ({sick} faulty GPU{'s' if sick > 1 else ''})")
    return found


def _resources(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> Reason:
    alone = [demand for demand in parts if find(ledger, (demand,), allowed) is None]
    demand = alone[0] if alone else max(parts, key=lambda part: (part.cpu_milli, part.memory_mb))
    nodes = [one for one in bits(eligible(ledger, demand, allowed)) if ledger.room(one).gpus >= demand.gpus]
    best = max(nodes, key=lambda one: (_headroom(ledger, one, demand), -one))
    cpu, memory = _free_for(ledger, best, demand)
    node = ledger.layout.nodes[best].id
    numbers: dict[str, int | str] = {
        "cpu_milli": demand.cpu_milli, "memory_mb": demand.memory_mb, "tasks": demand.count, "node": node,
        "free_cpu_milli": cpu, "free_memory_mb": memory,
    }  # fmt: skip
    each = f"{demand.count} tasks of " if demand.count > 1 else ""
    needs = f"needs {each}{_amounts(demand)}" + (f" beside {_gpus(demand)}" if demand.gpus else "")
    if not alone:
        needs = f"its tasks fit alone but not together: one role {needs}"
    kept = " not kept for idle GPUs" if demand.modest and ledger.room(best).gpus else ""
    sentence = f"{needs}; the roomiest node, {node}, has {_cpu(cpu)} and {_memory(memory)}{kept}"
    return Reason(Code.RESOURCES, numbers, sentence)


def _free_for(ledger: Ledger, number: int, demand: Demand) -> tuple[int, int]:
    """CPU and memory that a task of this demand may use of the node."""
    room = ledger.room(number)
    left = room.gpus - demand.gpus if demand.modest else 0
    return (
        max(0, room.cpu_milli - room.reserve_cpu_milli * left),
        max(0, room.memory_mb - room.reserve_memory_mb * left),
    )


def _headroom(ledger: Ledger, number: int, demand: Demand) -> tuple[int, int]:
    """How near the node comes to one task: the scarcer of CPU and memory, in thousandths, then their sum."""
    cpu, memory = _free_for(ledger, number, demand)
    by_cpu = 1000 * cpu // demand.cpu_milli if demand.cpu_milli else 1_000_000
    by_memory = 1000 * memory // demand.memory_mb if demand.memory_mb else 1_000_000
    return (min(by_cpu, by_memory), by_cpu + by_memory)


def _largest_hole(ledger: Ledger, nodes: int) -> tuple[int, str]:
    """Size of the largest hole on these nodes and the first node that has it; (0, "") when there is none."""
    for size in range(len(ledger.holes) - 1, 0, -1):
        for number in bits(ledger.holes[size] & nodes):
            return size, ledger.layout.nodes[number].id
    return 0, ""


def _gpus(demand: Demand) -> str:
    return f"{demand.gpus} {demand.cell_type}"


def _amounts(demand: Demand) -> str:
    cpu = [_cpu(demand.cpu_milli)] if demand.cpu_milli else []
    return " and ".join([*cpu, *([_memory(demand.memory_mb)] if demand.memory_mb else [])])


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _cpu(milli: int) -> str:
    return f"{milli / 1000:g} CPU"


def _memory(megabytes: int) -> str:
    return f"{round(megabytes / 1024, 1):g} GB" if megabytes >= 1024 else f"{megabytes} MB"

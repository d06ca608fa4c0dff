"""Imports a HiveD-style configuration as cells, virtual clusters and quotas, and exports them as one.

A configuration is complete for the nodes that it names, for pinned cells and for quotas; a node it does not name keeps
its cells, a virtual cluster it does not name loses its quota. Rules and members stay, except the right to the host
network if it is stated.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import yaml
from django.db.models import Count, F
from django.utils.translation import gettext

import scheduling
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.cluster import wordings
from portal.cluster.configuration_words import configuration_words
from portal.cluster.services.topology import gpu_leave_out, gpus_let_in
from portal.common.errors import Fault, Invalid
from portal.common.names import CELL_TYPE_LENGTH, NAME_RULE
from portal.common.plain_yaml import PlainLoader
from portal.hardware.models import RACK, CellType, Gpu, Node, Sku, UpperCell
from portal.hardware.services.cells import cell_types_clean
from portal.hardware.services.nodes import node_cpu_tasks_write, node_event
from portal.teams.models import PinnedCell, VirtualCluster
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.selectors.quotas import Quotas, base_lines, changes_planned
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.quota_checks import quota_faults
from portal.teams.services.quotas import Wish, lines_resolve, lines_write
from portal.teams.services.rules import vc_set_rules
from portal.teams.services.teams import vc_create
from scheduling.config import reading, writing
from scheduling.config.faults import ConfigError
from scheduling.model.cell_tree import chain_of

NAME_LENGTH = 64
MOST_OF_A_NODE = 2**31 - 1
"""Milli-cores or MB that a column can hold."""
SECTIONS = ("physicalCluster", "virtualClusters")


def configuration_read(document: Any) -> scheduling.Cluster:
    """The cluster described by a configuration, plain or inside OpenPAI's services-configuration.yaml. Raises Invalid
    with every fault and its path."""
    document = _unwrapped(document)
    if not document or isinstance(document, Mapping) and not any(document.get(key) for key in SECTIONS):
        message = gettext("the file says nothing of a cluster, and would take every quota away")
        raise Invalid([Fault("physicalCluster", message, "empty")])
    try:
        found = _parts_named(reading.read(document))
    except ConfigError as error:
        raise Invalid([Fault(one.path, configuration_words(one.words), "invalid") for one in error.faults]) from error
    if faults := [*_name_faults(found), *_node_faults(found)]:
        raise Invalid(faults)
    return found


def _parts_named(found: scheduling.Cluster) -> scheduling.Cluster:
    """Gives the lesser part of a machine in two chains a valid node name."""
    names = {node.id: f"{reading.machine(node)}_{node.chain}" for node in found.nodes if "@" in node.id}
    if not names:
        return found
    nodes = [
        replace(
            node, id=name, leaves=tuple(replace(leaf, id=f"{name}:{leaf.index}", node=name) for leaf in node.leaves)
        )
        for node in found.nodes
        for name in (names.get(node.id, node.id),)
    ]
    upper = (
        replace(one, children=tuple(names.get(child, child) for child in one.children)) for one in found.upper_cells
    )
    pinned = (replace(one, at=names.get(one.at, one.at)) for one in found.pinned_cells)
    counts = Counter(node.id for node in nodes)
    if double := sorted(name for name in names.values() if counts[name] > 1):
        message = gettext("%(name)s is listed twice") % {"name": double[0][:80]}
        raise Invalid([Fault(f"physicalCluster.physicalCells.{double[0]}", message, "name")])
    return replace(
        found,
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        upper_cells=tuple(upper),
        pinned_cells=tuple(pinned),
    )


def _unwrapped(document: Any) -> Any:
    """The configuration inside OpenPAI's services-configuration.yaml, if it is that file."""
    services = document.get("hivedscheduler") if isinstance(document, Mapping) else None
    if not isinstance(services, Mapping) or "config" not in services:
        return document
    inner = services["config"]
    if not isinstance(inner, str):
        return inner
    try:
        return yaml.load(inner, Loader=PlainLoader)  # noqa: S506  # a safe loader, and less
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        message = gettext("This is no YAML: %(why)s") % {"why": str(error) or gettext("nested too deeply")}
        raise Invalid([Fault("hivedscheduler.config", message, "invalid")]) from error


def configuration_export() -> dict[str, Any]:
    """The cluster as a configuration, with quotas but no temporary changes."""
    return writing.write(cluster_read().with_quotas(base_lines()))


def configuration_import(*, found: scheduling.Cluster, now: datetime, actor: str, version: int | None = None) -> None:
    """Make this the cluster. Raises Invalid with every fault, and then changes nothing; Conflict if the cluster is no
    longer that of ``version``."""
    with cluster_change(version=version):
        before = configuration_export()
        _nodes_hold(found)
        types = _types_write(found)
        rows = {node.id: _node_write(node, types, now, actor) for node in found.nodes}
        _upper_write(found, types, rows)
        _vcs_make(found, now, actor)
        _pinned_write(found, types, rows)
        _quotas_write(found, now, actor)
        _types_drop(found)
        audit_write(
            Audited.CLUSTER, actor=actor, target="cluster", now=now, before=before, after=configuration_export()
        )


def _nodes_hold(found: scheduling.Cluster) -> None:
    """Lock the rows of the named nodes: no task is placed there from now on, and earlier decisions find other versions.
    Only now it is certain which GPUs are in use; raises Invalid as ``configuration_read`` does."""
    nodes = Node.objects.filter(name__in=[node.id for node in found.nodes])
    list(nodes.select_for_update(no_key=True).order_by("pk").values_list("pk"))
    nodes.update(placement_version=F("placement_version") + 1)
    if faults := [*_node_faults(found)]:
        raise Invalid(faults)


# ---------------------------------------------------------------- faults


def _name_faults(found: scheduling.Cluster) -> Iterator[Fault]:
    nodes = [node for node in found.nodes if node.leaves]
    places = [
        *((f"physicalCluster.cellTypes.{one.name}", one.name, CELL_TYPE_LENGTH) for one in found.cell_types),
        *((f"physicalCluster.physicalCells.{one.id}", one.id, NAME_LENGTH) for one in nodes),
        *((f"physicalCluster.physicalCells.{one.id}", one.id, NAME_LENGTH) for one in found.pinned_cells),
        *((f"physicalCluster.skuTypes.{name}", name, NAME_LENGTH) for name in {one.cell_type for one in nodes}),
        *((f"virtualClusters.{one.id}", one.id, NAME_LENGTH) for one in found.virtual_clusters),
    ]
    for path, name, length in places:
        if len(name) > length or not re.search(NAME_RULE, name):
            message = gettext("%(name)s is no name: letters, digits, dot, dash and underscore, at most %(length)s") % {
                "name": name[:80],
                "length": length,
            }
            yield Fault(path, message, "name")


def _node_faults(found: scheduling.Cluster) -> Iterator[Fault]:
    yield from _gpu_faults([node for node in found.nodes if node.leaves])
    for node in found.nodes:
        if max(node.cpu_milli, node.memory_mb) > MOST_OF_A_NODE:
            message = gettext("%(node)s would have more CPU or memory than can be; see skuTypes") % {"node": node.id}
            yield Fault(f"physicalCluster.physicalCells.{node.id}", message, "maximum")
    names = [node.id for node in found.nodes if not node.leaves]
    shapes = dict(Node.objects.filter(name__in=names).values_list("name", "shape"))
    described = {node.id for node in found.nodes if node.cpu_milli}
    for name in names:
        path = f"physicalCluster.cpuNodes.{name}"
        if name not in shapes and name not in described:
            words = gettext("no server is called %(name)s; it can be named once it has joined")
            yield Fault(path, words % {"name": name[:200]}, "unknown")
        elif shapes.get(name) is not None:
            yield Fault(path, gettext("%(node)s has GPUs: name it under physicalCells") % {"node": name}, "gpus")


def _gpu_faults(nodes: Sequence[scheduling.Node]) -> Iterator[Fault]:
    gpus: dict[str, list[Gpu]] = defaultdict(list)
    named = Gpu.objects.filter(node__name__in=[node.id for node in nodes]).select_related("node")
    for gpu in named:
        gpus[gpu.node.name].append(gpu)
    held = set(
        named.filter(allocations__isnull=False, allocations__released_at__isnull=True).values_list("pk", flat=True)
    )
    models = dict(Sku.objects.exclude(gpu_model="").values_list("name", "gpu_model"))
    for node in nodes:
        path = f"physicalCluster.physicalCells.{node.id}"
        places = {leaf.index for leaf in node.leaves}
        for gpu in gpus[node.id]:
            if gpu.pk in held and _place(gpu) not in places:
                yield Fault(
                    path,
                    gettext("GPU %(index)s of %(node)s is in use and has no cell")
                    % {"index": _place(gpu), "node": node.id},
                    "in_use",
                )
        wrong = {gpu.model for gpu in gpus[node.id] if gpu.present and _place(gpu) in places} - {
            models.get(node.cell_type)
        }
        if wrong and node.cell_type in models:
            message = gettext("%(node)s has %(wrong)s; %(cell_type)s is %(model)s") % {
                "node": node.id,
                "wrong": ", ".join(sorted(wrong)),
                "cell_type": node.cell_type,
                "model": models[node.cell_type],
            }
            yield Fault(path, message, "model")


def _place(gpu: Gpu) -> int:
    """The GPU's number in a configuration."""
    return gpu.index if gpu.slot is None else gpu.slot


# ---------------------------------------------------------------- rows


def _types_write(found: scheduling.Cluster) -> dict[str, CellType]:
    types: dict[str, CellType] = {}
    for node in found.nodes:
        if node.cell_type and node.cell_type not in types:
            share = {"cpu_milli": node.cpu_milli // len(node.leaves), "memory_mb": node.memory_mb // len(node.leaves)}
            sku, _ = Sku.objects.get_or_create(name=node.cell_type, defaults={"gpu_memory_mb": 0, **share})
            leaf = {"sku": sku, "child": None, "child_count": 0, "is_node_level": False}
            types[node.cell_type], _ = CellType.objects.update_or_create(name=node.cell_type, defaults=leaf)
    left = {one.name: one for one in found.cell_types}
    while ready := [one for one in left.values() if one.child in types]:
        for one in ready:
            child = types[one.child]
            columns = {
                "sku": child.sku, "child": child, "child_count": one.child_count, "is_node_level": one.node_level,
                "derived": False,
            }  # fmt: skip
            types[one.name], _ = CellType.objects.update_or_create(name=one.name, defaults=columns)
            del left[one.name]
    return types


def _node_write(node: scheduling.Node, types: dict[str, CellType], now: datetime, actor: str) -> Node:
    row, made = Node.objects.get_or_create(name=node.id)
    if row.last_report_at is None and node.cpu_milli:
        Node.objects.filter(pk=row.pk).update(cpu_milli=node.cpu_milli, memory_mb=node.memory_mb)
    if node.cpu_tasks is not None:
        node_cpu_tasks_write(node=row, cpu_tasks=node.cpu_tasks, actor=actor, now=now)
    if not node.leaves:
        if made:
            node_event(node=row, code="configured", message=wordings.EXPECTED(node=node.id), now=now, actor=actor)
        return row
    chain = "" if node.chain == node.cell_type else node.chain
    columns = {
        "shape": types[node.shape], "slots": [leaf.index for leaf in node.leaves], "chain": chain,
        "sku": types[node.cell_type].sku, "rack": "",
    }  # fmt: skip
    changed = {name: value for name, value in columns.items() if getattr(row, name) != value}
    Node.objects.filter(pk=row.pk).update(**changed, upper=None)
    _gpus_write(row, types[node.cell_type], columns["slots"])
    if changed or made:
        message = wordings.CONFIGURED(node=node.id, shape=node.shape, chain=chain_of(node))
        if made:
            message = wordings.EXPECTED(node=node.id)
        node_event(node=row, code="configured", message=message, now=now, actor=actor)
    return row


def _gpus_write(node: Node, leaf: CellType, slots: object) -> None:
    places = set(slots) if isinstance(slots, list) else set()
    for gpu in Gpu.objects.filter(node=node):
        inside = _place(gpu) in places
        Gpu.objects.filter(pk=gpu.pk).update(slot=_place(gpu) if inside else None, cell_type=leaf)
        if inside:
            Sku.objects.filter(pk=leaf.sku_id, gpu_model="").update(gpu_model=gpu.model, gpu_memory_mb=gpu.memory_mb)
        else:
            gpu_leave_out(gpu=gpu, why="the configuration gives it no cell")
    gpus_let_in(node=node)


def _upper_write(found: scheduling.Cluster, types: dict[str, CellType], rows: dict[str, Node]) -> None:
    """Rewrites the cells above the nodes; of the present ones only racks without named nodes stay."""
    UpperCell.objects.exclude(address__startswith=RACK).delete()
    for rack in UpperCell.objects.select_related("cell_type").annotate(there=Count("nodes")):
        if rack.there != rack.cell_type.child_count:
            rack.delete()
    left = {cell.address: cell for cell in found.upper_cells}
    made: dict[str, UpperCell] = {
        address: UpperCell.objects.create(address=address, cell_type=types[cell.cell_type])
        for address, cell in left.items()
    }
    for address, cell in left.items():
        for child in cell.children:
            if child in made:
                UpperCell.objects.filter(pk=made[child].pk).update(parent=made[address])
            else:
                Node.objects.filter(pk=rows[child].pk).update(upper=made[address])


def _pinned_write(found: scheduling.Cluster, types: dict[str, CellType], rows: dict[str, Node]) -> None:
    PinnedCell.objects.all().delete()
    owner = {name: vc.id for vc in found.virtual_clusters for name in vc.pinned}
    vcs = {vc.name: vc for vc in VirtualCluster.objects.all()}
    upper = {cell.address: cell for cell in UpperCell.objects.all()}
    PinnedCell.objects.bulk_create(
        PinnedCell(
            name=cell.id, cell_type=types[cell.cell_type], upper=upper.get(cell.at), node=rows.get(cell.at),
            first=cell.first, vc=vcs.get(owner.get(cell.id, "")),
        )
        for cell in found.pinned_cells
    )  # fmt: skip


def _vcs_make(found: scheduling.Cluster, now: datetime, actor: str) -> None:
    known = {vc.name: vc for vc in VirtualCluster.objects.all()}
    for vc in found.virtual_clusters:
        if vc.id not in known:
            vc_create(name=vc.id, host_network=vc.host_network is True, now=now, actor=actor)
        elif vc.host_network is not None:
            row, said = known[vc.id], {"host_network": vc.host_network}
            vc_set_rules(vc=row, changes=said, now=now, actor=actor)


def _quotas_write(found: scheduling.Cluster, now: datetime, actor: str) -> None:
    wishes = [
        Wish(vc.id, line.cell_type, line.count, line.chain)
        for vc in found.virtual_clusters
        for line in vc.quota
        if line.count
    ]
    try:
        lines, here = lines_resolve(wishes), cluster_read()
        # Cells have changed since the quotas were made: earlier shortages are no excuse.
        faults = quota_faults(Quotas(lines, changes_planned()), Quotas({}), here=here, now=now)
    except scheduling.ClusterError as error:
        # Nodes that the file does not name, or planned changes, contradict it.
        faults = [Fault(f"physicalCluster.{error.subject}", error.problem, "invalid")]
    if faults:
        raise Invalid(faults)
    before = base_lines()
    if not found.virtual_clusters and any(before.values()):
        message = gettext("the file names no virtual cluster, and would take every quota away; name those to have none")
        raise Invalid([Fault("virtualClusters", message, "empty")])
    lines_write(dict.fromkeys(before, 0) | lines, before, here, now, actor)


def _types_drop(found: scheduling.Cluster) -> None:
    named = {one.name for one in found.cell_types}
    CellType.objects.filter(child__isnull=False).exclude(name__in=named).update(derived=True)
    cell_types_clean()

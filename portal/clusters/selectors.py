"""Reading virtual clusters (VCs) and nodes: what somebody may see of them, and how full they are.

Usage is derived from live rows. The holders of GPUs are reached through the reverse relation ``allocations``;
nothing above is imported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, Relation, allowed_everywhere
from portal.clusters.models import CellType, Gpu, Membership, Node, QuotaLine, Sku, VirtualCluster
from portal.clusters.states import NodeHealth, NodeIntent, VcRole
from portal.common.errors import Denied, NotFound

_ROLES = {Relation.LEAD: VcRole.LEAD, Relation.MEMBER: VcRole.MEMBER}


def memberships_of(*, user: User) -> QuerySet[Membership]:
    """The user's memberships, direct and by groups."""
    return Membership.objects.filter(Q(user=user) | Q(group__in=user.groups.all()))


def vcs_of(*, user: User, relations: Iterable[Relation]) -> QuerySet[VirtualCluster]:
    """The VCs to which the user has one of these relations (lead, member); none for a disabled account."""
    roles = [_ROLES[relation] for relation in relations if relation in _ROLES]
    if not user.is_active:
        return VirtualCluster.objects.none()
    return VirtualCluster.objects.filter(pk__in=memberships_of(user=user).filter(role__in=roles).values("vc"))


def vc_restrict(*, user: User, action: Action = Action.VC_READ) -> QuerySet[VirtualCluster]:
    """The VCs to which the user may do this."""
    if allowed_everywhere(user, action):
        return VirtualCluster.objects.all()
    return vcs_of(user=user, relations=ALLOWED[action])


def vcs_for_submit(user: User) -> QuerySet[VirtualCluster]:
    """The VCs into which the user may submit."""
    return vc_restrict(user=user, action=Action.JOB_SUBMIT)


def vc_get(*, user: User, name: str) -> VirtualCluster:
    """The VC of that name; NotFound when there is none that the user may see."""
    vc = vc_restrict(user=user).filter(name=name).first()
    if vc is None:
        raise NotFound("virtual cluster", name)
    return vc


def vc_roles(*, user: User) -> dict[int, str]:
    """The user's role in each VC, by the VC's id; the higher one where there are several."""
    roles: dict[int, str] = {}
    for vc, role in memberships_of(user=user).order_by().values_list("vc", "role"):
        roles[vc] = VcRole.LEAD if VcRole.LEAD in {role, roles.get(vc)} else role
    return roles


def node_restrict(*, user: User, action: Action = Action.NODE_READ) -> QuerySet[Node]:
    """The nodes to which the user may do this."""
    return Node.objects.all() if allowed_everywhere(user, action) else Node.objects.none()


def node_get(*, user: User, name: str) -> Node:
    """The node of that name; NotFound when there is none that the user may see."""
    node = node_restrict(user=user).select_related("sku").filter(name=name).first()
    if node is None:
        raise NotFound("node", name)
    return node


def node_with_right(*, user: User, name: str, action: Action) -> Node:
    """The node, to do ``action`` to it. NotFound when the user may not even see it, Denied when not more than that."""
    node = node_get(user=user, name=name)
    if not node_restrict(user=user, action=action).filter(pk=node.pk).exists():
        raise Denied("Only an administrator may change what is wanted of a node.")
    return node


@dataclass(frozen=True, slots=True)
class JobSight:
    """Whose jobs somebody may do a thing to: all, those of some VCs, one's own. For events and lists that carry
    jobs along; one query makes it, none asks it."""

    everything: bool
    own: int | None
    vcs: frozenset[int]

    def covers(self, *, user_id: int, vc_id: int) -> bool:
        """Whether a job of that user in that VC is among them."""
        return self.everything or user_id == self.own or vc_id in self.vcs


def job_sight(*, user: User, action: Action = Action.JOB_READ) -> JobSight:
    """What the table of rights gives the user over jobs."""
    if allowed_everywhere(user, action):
        return JobSight(everything=True, own=None, vcs=frozenset())
    own = user.pk if user.is_active and Relation.OWNER in ALLOWED[action] else None
    vcs = vcs_of(user=user, relations=ALLOWED[action]).values_list("pk", flat=True)
    return JobSight(everything=False, own=own, vcs=frozenset(vcs))


_LIVE = Q(allocations__isnull=False, allocations__released_at__isnull=True)


@dataclass(frozen=True, slots=True)
class SkuShare:
    """A VC's GPUs of one SKU: guaranteed to it, in use inside that guarantee, and borrowed beyond it."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int

    @property
    def free(self) -> int:
        """GPUs of the quota that nobody of the VC uses."""
        return max(self.quota - self.guaranteed, 0)


def vc_quotas(*, vcs: Iterable[VirtualCluster]) -> dict[int, dict[str, int]]:
    """The GPUs guaranteed to each VC, by its id and the SKU's name. Two queries for any number of VCs."""
    leaves = _leaves_by_cell_type()
    quotas: dict[int, dict[str, int]] = {vc.pk: {} for vc in vcs}
    for line in QuotaLine.objects.filter(vc__in=quotas).select_related("cell_type__sku"):
        own, sku = quotas[line.vc_id], line.cell_type.sku.name
        own[sku] = own.get(sku, 0) + line.count * leaves[line.cell_type_id]
    return quotas


def vc_shares(*, vcs: Iterable[VirtualCluster]) -> dict[int, list[SkuShare]]:
    """Each VC's shares by its id, in the order of SKU names. Three queries for any number of VCs."""
    vcs = list(vcs)
    used = _gpus_in_use(vcs)
    shares = {}
    for key, quota in vc_quotas(vcs=vcs).items():
        skus = sorted(quota.keys() | {sku for vc, sku, _ in used if vc == key})
        shares[key] = [
            SkuShare(
                sku=sku,
                quota=quota.get(sku, 0),
                guaranteed=used.get((key, sku, "guaranteed"), 0),
                borrowed=used.get((key, sku, "borrowed"), 0),
            )
            for sku in skus
        ]
    return shares


def _leaves_by_cell_type() -> dict[int, int]:
    """How many GPUs a cell of each type has."""
    types = {cell_type.pk: cell_type for cell_type in CellType.objects.all()}

    def leaves(key: int) -> int:
        child = types[key].child_id
        return 1 if child is None else types[key].child_count * leaves(child)

    return {key: leaves(key) for key in types}


def _gpus_in_use(vcs: Sequence[VirtualCluster]) -> dict[tuple[int, str, str], int]:
    """GPUs held by jobs, by (VC's id, SKU's name, standing)."""
    vc, sku, standing = "allocations__task_attempt__task__job__vc", "cell_type__sku__name", "allocations__standing"
    rows = Gpu.objects.filter(_LIVE, **{f"{vc}__in": vcs}).order_by().values_list(vc, sku, standing)
    return {(row[0], row[1], row[2]): row[3] for row in rows.annotate(number=Count("pk"))}


@dataclass(frozen=True, slots=True)
class SkuTotal:
    """GPUs of one SKU in the whole cluster: there, fit for new tasks (free or held), held, and free for new tasks."""

    sku: str
    gpu_model: str
    memory_mb: int
    gpus: int
    usable: int
    held: int
    free: int


def sku_totals() -> list[SkuTotal]:
    """Every SKU's GPUs, in the order of names; one query."""
    usable = Q(
        cell_types__gpus__present=True,
        cell_types__gpus__fault="",
        cell_types__gpus__node__intent=NodeIntent.OPEN,
        cell_types__gpus__node__health=NodeHealth.HEALTHY,
    )
    present = Q(cell_types__gpus__present=True)
    held = Q(
        cell_types__gpus__in=Gpu.objects.filter(_LIVE).values("pk"),
    )

    def gpus(condition: Q) -> Count:
        return Count("cell_types__gpus", filter=condition, distinct=True)

    skus = Sku.objects.annotate(
        there=gpus(present), usable=gpus(usable), held=gpus(held), free=gpus(usable & ~held)
    ).order_by("name")
    return [
        SkuTotal(sku.name, sku.gpu_model, sku.gpu_memory_mb, sku.there, sku.usable, sku.held, sku.free) for sku in skus
    ]


@dataclass(frozen=True, slots=True)
class Holder:
    """The task that holds a GPU, and of which job it is."""

    job_id: int
    job_name: str
    run: int
    user_id: int
    username: str
    vc_id: int
    vc: str
    role: str
    index: int
    standing: str

    @property
    def label(self) -> str:
        """``user/name#run``."""
        return f"{self.username}/{self.job_name}#{self.run}"


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """A GPU and who holds it."""

    gpu: Gpu
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node, its GPUs in the order of their indices, and what its tasks hold of CPU and memory."""

    node: Node
    gpus: list[GpuPlace]
    cpu_milli_held: int
    memory_mb_held: int


def node_loads(*, nodes: Sequence[Node]) -> list[NodeLoad]:
    """The nodes with their GPUs and holders, in the given order; three queries for any number of nodes.

    GPUs that are gone and held by nobody are left out. Whom the holder's name may be shown to says ``job_sight``.
    """
    holders = _holders(nodes)
    gpus: dict[int, list[GpuPlace]] = defaultdict(list)
    for gpu in Gpu.objects.filter(node__in=nodes).select_related("cell_type__sku").order_by("index", "pk"):
        if gpu.present or gpu.pk in holders:
            gpus[gpu.node_id].append(GpuPlace(gpu, holders.get(gpu.pk)))
    held = _held_by_tasks(nodes)
    return [NodeLoad(node, gpus[node.pk], *held.get(node.pk, (0, 0))) for node in nodes]


def _holders(nodes: Sequence[Node]) -> dict[int, Holder]:
    """The holder of each held GPU, by the GPU's id."""
    task = "allocations__task_attempt__task__"
    job = f"{task}job__"
    columns = [
        *(f"{job}{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
        *(f"{task}role__name", f"{task}index", "allocations__standing"),
    ]
    rows = Gpu.objects.filter(_LIVE, node__in=nodes).order_by().values_list("pk", *columns)
    return {row[0]: Holder(*row[1:]) for row in rows}


def _held_by_tasks(nodes: Sequence[Node]) -> dict[int, tuple[int, int]]:
    """(CPU in thousandths, memory in MB) held by tasks, by the node's id."""
    live = Q(task_attempts__isnull=False, task_attempts__released_at__isnull=True)
    rows = Node.objects.filter(live, pk__in=[node.pk for node in nodes]).order_by().values_list("pk")
    summed = rows.annotate(cpu=Sum("task_attempts__cpu_milli"), memory=Sum("task_attempts__memory_mb"))
    return {key: (cpu, memory) for key, cpu, memory in summed}

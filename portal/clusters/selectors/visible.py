"""What somebody may see of virtual clusters (VCs), nodes and jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, Relation, allowed_everywhere
from portal.clusters.models import Membership, Node, VirtualCluster
from portal.clusters.states import VcRole
from portal.common.errors import Denied, NotFound

_VC_REFUSALS = {
    Action.VC_CAP: "Only a lead of the virtual cluster or an administrator may change this.",
    Action.VC_MEMBERS: "Only a lead of the virtual cluster or an administrator may change who is in it.",
    Action.VC_CONFIGURE: "Only an administrator may change this.",
    Action.VC_MAKE: "Only an administrator may make and remove virtual clusters.",
    Action.VC_SECRETS_LIST: "Only those who are in the virtual cluster may see what it has stored.",
    Action.TEMPLATE_WRITE: "Only a lead of the virtual cluster or an administrator may write its templates.",
    Action.IDLE_READ: "Only those who are in the virtual cluster may see its own idle policy.",
    Action.IDLE_SET: "Only an administrator may set what becomes of jobs whose GPUs do nothing.",
    Action.IDLE_EXEMPT: "Only a lead of the virtual cluster or an administrator may except its jobs.",
    Action.VC_SECRETS_SET: "Only a lead of the virtual cluster or an administrator may store secrets for it.",
}
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


def vc_with_right(*, user: User, name: str, action: Action) -> VirtualCluster:
    """The VC, to do ``action`` to it. NotFound when the user may not even see it, Denied when not more than that."""
    vc = vc_get(user=user, name=name)
    if not vc_restrict(user=user, action=action).filter(pk=vc.pk).exists():
        raise Denied(_VC_REFUSALS[action])
    return vc


def vc_make_right(*, user: User) -> None:
    """Raises Denied unless the user may make virtual clusters."""
    if not allowed_everywhere(user, Action.VC_MAKE):
        raise Denied(_VC_REFUSALS[Action.VC_MAKE])


def cluster_right(*, user: User) -> None:
    """Raises Denied unless the user may change cells and quotas."""
    if not allowed_everywhere(user, Action.CLUSTER_CONFIGURE):
        raise Denied("Only an administrator may read and change the cluster's configuration and the quotas.")


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
    node = node_restrict(user=user).select_related("sku", "shape", "upper").filter(name=name).first()
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


def job_sights(*, user: User, actions: Sequence[Action]) -> list[JobSight]:
    """The same for several actions. One query."""
    roles = vc_roles(user=user) if user.is_active else {}
    found = []
    for action in actions:
        allowed = {_ROLES[relation] for relation in ALLOWED[action] if relation in _ROLES}
        everything = allowed_everywhere(user, action)
        own = user.pk if user.is_active and Relation.OWNER in ALLOWED[action] else None
        vcs = frozenset(vc for vc, role in roles.items() if role in allowed)
        found.append(JobSight(True, None, frozenset()) if everything else JobSight(False, own, vcs))
    return found


def may(*, user: User, vc: VirtualCluster, action: Action) -> bool:
    """Whether the user may do this to the VC."""
    return vc_restrict(user=user, action=action).filter(pk=vc.pk).exists()


def jobs_seen(*, user: User, vc: VirtualCluster) -> bool:
    """Whether the user may see the jobs of this VC, and so who is in it."""
    return job_sight(user=user).covers(user_id=0, vc_id=vc.pk)

"""Visibility of virtual clusters (VCs), nodes and jobs by user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils.translation import gettext, gettext_noop

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, Relation, allowed_everywhere
from portal.common.errors import Denied, Fault, Invalid, NotFound
from portal.common.prepared import Prepared, Slot
from portal.hardware.models import Node
from portal.hardware.states import VcRole
from portal.teams.models import Membership, VirtualCluster

_VC_REFUSALS = {
    Action.VC_CAP: gettext_noop("Only a lead of the virtual cluster or an administrator may change this."),
    Action.VC_MEMBERS: gettext_noop("Only a lead of the virtual cluster or an administrator may change who is in it."),
    Action.VC_CONFIGURE: gettext_noop("Only an administrator may change this."),
    Action.VC_MAKE: gettext_noop("Only an administrator may make and remove virtual clusters."),
    Action.TEMPLATE_WRITE: gettext_noop(
        "Only a lead of the virtual cluster or an administrator may write its templates."
    ),
    Action.IDLE_SET: gettext_noop("Only an administrator may set what becomes of jobs whose GPUs do nothing."),
    Action.IDLE_EXEMPT: gettext_noop("Only a lead of the virtual cluster or an administrator may except its jobs."),
    Action.VC_SECRETS_SET: gettext_noop(
        "Only a lead of the virtual cluster or an administrator may store secrets for it."
    ),
}
_UNSEEN = {
    Action.VC_SECRETS_LIST: gettext_noop("list of secrets of virtual cluster"),
    Action.IDLE_READ: gettext_noop("idle policy of virtual cluster"),
}
"""Parts of a virtual cluster that not everybody who sees it may see."""
_ROLES = {Relation.LEAD: VcRole.LEAD, Relation.MEMBER: VcRole.MEMBER}


def memberships_of(*, user: User) -> QuerySet[Membership]:
    """The user's memberships, direct and by groups."""
    return Membership.objects.filter(Q(user=user) | Q(group__in=user.groups.all()))


def vcs_of(*, user: User, relations: Iterable[Relation]) -> QuerySet[VirtualCluster]:
    """VCs to which the user has one of these relations (lead, member); none for a disabled account."""
    roles = [_ROLES[relation] for relation in relations if relation in _ROLES]
    if not user.is_active:
        return VirtualCluster.objects.none()
    return VirtualCluster.objects.filter(pk__in=memberships_of(user=user).filter(role__in=roles).values("vc"))


def vc_restrict(*, user: User, action: Action = Action.VC_READ) -> QuerySet[VirtualCluster]:
    """VCs on which the user may do this."""
    if allowed_everywhere(user, action):
        return VirtualCluster.objects.all()
    return vcs_of(user=user, relations=ALLOWED[action])


def vcs_for_submit(user: User) -> QuerySet[VirtualCluster]:
    """VCs into which the user may submit."""
    return vc_restrict(user=user, action=Action.JOB_SUBMIT)


def vc_key(*, name: str) -> int | None:
    """Row id of the newest virtual cluster of that name, removed or not, whoever asks; None if there is none."""
    return _KEY.first(name=name) if name and "\0" not in name else None


def _keys() -> QuerySet[VirtualCluster, int]:
    named = VirtualCluster._base_manager.filter(name=Slot("name", str))
    return named.order_by("-pk").values_list("pk", flat=True)[:1]


_KEY = Prepared(_keys)


def vc_get(*, user: User, name: str) -> VirtualCluster:
    """The VC of that name. Raises NotFound unless the user may see it."""
    vc = _VC.first(name=name)
    if vc is None or not may(user=user, vc=vc, action=Action.VC_READ):
        raise NotFound("virtual cluster", name, seen=vc_restrict(user=user).values_list("name", flat=True))
    return vc


_VC = Prepared(lambda: VirtualCluster.objects.filter(name=Slot("name", str)).order_by())


def vc_with_right(*, user: User, name: str, action: Action) -> VirtualCluster:
    """The VC, for ``action``. Raises NotFound if the user may not see it, Denied if the user may do no more."""
    vc = vc_get(user=user, name=name)
    if not may(user=user, vc=vc, action=action):
        if action in _UNSEEN:
            raise NotFound(_UNSEEN[action], name)
        raise Denied(gettext(_VC_REFUSALS[action]))
    return vc


def vc_make_right(*, user: User) -> None:
    """Raises Denied unless the user may make virtual clusters."""
    if not allowed_everywhere(user, Action.VC_MAKE):
        raise Denied(gettext(_VC_REFUSALS[Action.VC_MAKE]))


def configuration_right(*, user: User) -> None:
    """Raises NotFound unless the user may read and change the configuration of the cluster."""
    if not allowed_everywhere(user, Action.CLUSTER_CONFIGURE):
        raise NotFound("configuration of the cluster")


def cluster_right(*, user: User) -> None:
    """Raises Denied unless the user may change cells and quotas."""
    if not allowed_everywhere(user, Action.CLUSTER_CONFIGURE):
        raise Denied(gettext("Only an administrator may read and change the cluster's configuration and the quotas."))


def _roles_of() -> QuerySet[Membership, tuple[int, str]]:
    groups = User.groups.through.objects.filter(user_id=Slot("user", int)).values("group")
    mine = Membership.objects.filter(Q(user_id=Slot("user", int)) | Q(group__in=groups))
    return mine.order_by().values_list("vc", "role")


_ROLES_OF = Prepared(_roles_of)


def vc_roles(*, user: User) -> dict[int, str]:
    """The user's role in each VC, by the VC's id; the highest if there are several."""
    roles: dict[int, str] = {}
    for vc, role in _ROLES_OF(user=user.pk):
        roles[vc] = VcRole.LEAD if VcRole.LEAD in {role, roles.get(vc)} else role
    return roles


def node_restrict(*, user: User, action: Action = Action.NODE_READ) -> QuerySet[Node]:
    """Nodes on which the user may do this."""
    return Node.objects.all() if allowed_everywhere(user, action) else Node.objects.none()


def node_get(*, user: User, name: str) -> Node:
    """The node of that name. Raises NotFound unless the user may see it."""
    node = _NODE.first(name=name)
    if node is None or not allowed_everywhere(user, Action.NODE_READ):
        raise NotFound("node", name)
    return node


_NODE = Prepared(lambda: Node.objects.filter(name=Slot("name", str)).select_related("sku", "shape", "upper").order_by())


def node_with_right(*, user: User, name: str, action: Action) -> Node:
    """The node, for ``action``. Raises NotFound if the user may not see it, Denied if the user may do no more."""
    node = node_get(user=user, name=name)
    if not allowed_everywhere(user, action):
        raise Denied(gettext("Only an administrator may change what is wanted of a node, and remove it."))
    return node


def node_add_right(*, user: User) -> None:
    """Raises Denied unless the user may register nodes and make keys for them."""
    if not allowed_everywhere(user, Action.NODE_ADD):
        raise Denied(gettext("Only an administrator may register servers and make keys for them."))


@dataclass(frozen=True, slots=True)
class JobSight:
    """The jobs somebody may do a thing to: all, those of some VCs, one's own. For events and lists that carry jobs
    along; one query makes it, checks need none."""

    everything: bool
    own: int | None
    vcs: frozenset[int]

    def covers(self, *, user_id: int, vc_id: int) -> bool:
        """Whether it includes a job of that user in that VC."""
        return self.everything or user_id == self.own or vc_id in self.vcs


def job_sight(*, user: User, action: Action = Action.JOB_READ) -> JobSight:
    """The user's sight over jobs, by the rights table."""
    return job_sights(user=user, actions=[action])[0]


def job_sights(*, user: User, actions: Sequence[Action]) -> list[JobSight]:
    """Sights for several actions. At most one query."""
    everywhere = all(allowed_everywhere(user, action) for action in actions)
    roles = vc_roles(user=user) if user.is_active and not everywhere else {}
    found = []
    for action in actions:
        allowed = {_ROLES[relation] for relation in ALLOWED[action] if relation in _ROLES}
        everything = allowed_everywhere(user, action)
        own = user.pk if user.is_active and Relation.OWNER in ALLOWED[action] else None
        vcs = frozenset(vc for vc, role in roles.items() if role in allowed)
        found.append(JobSight(True, None, frozenset()) if everything else JobSight(False, own, vcs))
    return found


def may(*, user: User, vc: VirtualCluster, action: Action) -> bool:
    """Whether the user may do this to the VC. One query at most."""
    if allowed_everywhere(user, action):
        return True
    wanted = {_ROLES[relation] for relation in ALLOWED[action] if relation in _ROLES}
    return user.is_active and any(key == vc.pk and role in wanted for key, role in _ROLES_OF(user=user.pk))


def jobs_seen(*, user: User, vc: VirtualCluster) -> bool:
    """Whether the user may see this VC's jobs, and hence its members."""
    return job_sight(user=user).covers(user_id=0, vc_id=vc.pk)


def vcs_named(names: Iterable[str], *, path: str = "virtual_clusters") -> list[VirtualCluster]:
    """Virtual clusters by name. Raises Invalid for unknown names."""
    wanted = list(dict.fromkeys(names))
    found = {vc.name: vc for vc in VirtualCluster.objects.filter(name__in=wanted)}
    missing = [
        Fault(path, gettext("there is no virtual cluster %(name)s") % {"name": name}, "unknown")
        for name in wanted
        if name not in found
    ]
    if missing:
        raise Invalid(missing)
    return [found[name] for name in wanted]

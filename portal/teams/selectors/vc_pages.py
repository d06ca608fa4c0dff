"""Cards of virtual clusters (VCs), for the pages."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from portal.accounts.models import User
from portal.hardware.states import VcRole
from portal.teams.models import VirtualCluster
from portal.teams.selectors.shares import SkuShare, vc_shares
from portal.teams.selectors.visible import vc_restrict, vc_roles

LIVE = ("waiting", "starting", "running", "stopping")
"""States of live jobs, which the database has an index for."""


@dataclass(frozen=True, slots=True)
class VcCard:
    """A VC, the reader's role in it (empty: none), its shares, and its running and waiting jobs."""

    vc: VirtualCluster
    role: str
    shares: list[SkuShare]
    running: int
    waiting: int

    @property
    def lead(self) -> bool:
        """Whether the reader leads it."""
        return self.role == VcRole.LEAD


def vc_cards(*, user: User) -> list[VcCard]:
    """Cards of the VCs a user may see, own ones first. A fixed number of queries."""
    vcs = list(vc_restrict(user=user).order_by("name"))
    shares, roles = vc_shares(vcs=vcs), vc_roles(user=user)
    rows = VirtualCluster.objects.filter(jobs__state__in=LIVE, pk__in=[vc.pk for vc in vcs]).order_by()
    waits = Q(jobs__state="waiting")
    found = rows.values_list("pk").annotate(waiting=Count("jobs", filter=waits), all=Count("jobs"))
    counts = {pk: (every - waiting, waiting) for pk, waiting, every in found}
    cards = [VcCard(vc, roles.get(vc.pk, ""), shares[vc.pk], *counts.get(vc.pk, (0, 0))) for vc in vcs]
    return sorted(cards, key=lambda card: (not card.role, card.vc.name))

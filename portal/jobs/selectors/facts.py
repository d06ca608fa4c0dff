"""Cluster facts that job file validation needs."""

from __future__ import annotations

from portal.accounts.models import User
from portal.job_file.facts import ClusterFacts
from portal.teams.models import VirtualCluster
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.selectors.visible import vcs_for_submit
from scheduling import Cluster
from scheduling.cycle.context import ClusterContext

_context: tuple[Cluster, ClusterContext] | None = None
"""The last context, and its cluster."""


def cluster_facts(*, user: User, also: VirtualCluster | None = None) -> ClusterFacts:
    """The VCs to which the user may submit, plus ``also``, and the cluster as the scheduler has it. A fixed number of
    queries, however large the cluster."""
    vcs = {*vcs_for_submit(user), *([also] if also else [])}
    return ClusterFacts(vcs=tuple(sorted(vc.name for vc in vcs)), context=_context_of(cluster_read().cluster))


def _context_of(cluster: Cluster) -> ClusterContext:
    """The cluster's context; cached for the last cluster."""
    global _context
    if (last := _context) is None or last[0] is not cluster:
        last = _context = cluster, ClusterContext(cluster)
    return last[1]

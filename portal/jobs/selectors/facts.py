"""The cluster as the validation of job files wants to know it."""

from __future__ import annotations

from portal.accounts.models import User
from portal.job_file.facts import ClusterFacts
from portal.teams.models import VirtualCluster
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.selectors.visible import vcs_for_submit
from scheduling import Cluster
from scheduling.cycle.context import ClusterContext

_context: tuple[Cluster, ClusterContext] | None = None
"""The last one, and of which cluster."""


def cluster_facts(*, user: User, also: VirtualCluster | None = None) -> ClusterFacts:
    """The virtual clusters into which the user may submit, and ``also``, and the cluster as the scheduler has it. A
    fixed number of queries, however large the cluster is."""
    vcs = {*vcs_for_submit(user), *([also] if also else [])}
    return ClusterFacts(vcs=tuple(sorted(vc.name for vc in vcs)), context=_context_of(cluster_read().cluster))


def _context_of(cluster: Cluster) -> ClusterContext:
    """What follows from the cluster; the last one where it is the same."""
    global _context
    if (last := _context) is None or last[0] is not cluster:
        last = _context = cluster, ClusterContext(cluster)
    return last[1]

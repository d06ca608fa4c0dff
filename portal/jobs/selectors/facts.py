"""Cluster facts that job file validation needs."""

from __future__ import annotations

from portal.accounts.models import User
from portal.job_file.facts import ClusterFacts
from portal.teams.models import VirtualCluster
from portal.teams.selectors.engine_cluster import CLUSTER
from portal.teams.selectors.visible import vcs_for_submit


def cluster_facts(*, user: User, also: VirtualCluster | None = None) -> ClusterFacts:
    """The VCs to which the user may submit, plus ``also``, and the cluster as the scheduler has it. A fixed number of
    queries, however large the cluster."""
    vcs = {*vcs_for_submit(user), *([also] if also else [])}
    return ClusterFacts(vcs=tuple(sorted(vc.name for vc in vcs)), context=CLUSTER.context())

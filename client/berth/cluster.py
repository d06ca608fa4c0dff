"""Servers and virtual clusters of the API, each method written once for both clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from berth.calls import LONG, Call, Listing, get, send
from berth.endpoint import ExecutorT_co, Resource, endpoint, rows
from berth.model.cluster import Node, NodeRemoved, UserShare, VirtualCluster, VirtualClusterDetail

Intent = Literal["open", "cordoned", "draining"]
Shares = list[UserShare]  # in the class below `list` is a method


class Nodes(Resource[ExecutorT_co]):
    """GPU servers."""

    @rows
    def list(self) -> Listing[Node]:
        """Every node by name, with its GPUs and who holds them."""
        return Listing("nodes", Node, LONG)

    @endpoint
    def get(self, name: str) -> Call[Node]:
        """One node."""
        return get(f"nodes/{quote(name, safe='')}", Node)

    @endpoint
    def set_intent(self, name: str, intent: Intent, *, reason: str = "") -> Call[Node]:
        """Sets what is wanted of the node: no new tasks (``cordoned``), its tasks moved away as well (``draining``), or
        ``open``. For administrators."""
        return send(
            "PATCH", f"nodes/{quote(name, safe='')}", Node, {"intent": intent, "reason": reason}, repeatable=True
        )

    @endpoint
    def accept(
        self, name: str, *, claims: Mapping[str, Any] | None = None, cpu_tasks: bool | None = None
    ) -> Call[Node]:  # fmt: skip
        """Accepts a server that has joined, or what an accepted one claims beyond what was accepted. ``claims``: as
        they were read and checked, so that nothing counts that it has claimed since; None: what it claims now.
        ``cpu_tasks``: whether tasks without GPUs may run there; None: unchanged, on a pending server true unless a
        configuration said otherwise. Raises Conflict where there is nothing to accept. For administrators."""
        body = {"claims": claims, "cpu_tasks": cpu_tasks}
        return send("POST", f"nodes/{quote(name, safe='')}/accept", Node, body)

    @endpoint
    def set_cpu_tasks(self, name: str, cpu_tasks: bool) -> Call[Node]:
        """Sets whether tasks without GPUs may be placed on the node from now on; those that run there go on. Raises
        Conflict for a pending one, for which it is set when it is accepted. For administrators."""
        body = {"cpu_tasks": cpu_tasks}
        return send("PUT", f"nodes/{quote(name, safe='')}/cpu-tasks", Node, body, repeatable=True)

    @endpoint
    def remove(self, name: str, *, dry_run: bool = False) -> Call[NodeRemoved]:
        """Removes a server on which nothing runs from the cluster, or only reports what that would do. For
        administrators."""
        query = "?dry_run=true" if dry_run else ""
        return send("DELETE", f"nodes/{quote(name, safe='')}{query}", NodeRemoved)


class VirtualClusters(Resource[ExecutorT_co]):
    """Virtual clusters: the teams' shares of the cluster."""

    @rows
    def list(self) -> Listing[VirtualCluster]:
        """Every virtual cluster by name, with its quota and what of it is in use."""
        return Listing("virtual-clusters", VirtualCluster, LONG)

    @endpoint
    def get(self, name: str) -> Call[VirtualClusterDetail]:
        """One virtual cluster with its rules."""
        return get(f"virtual-clusters/{quote(name, safe='')}", VirtualClusterDetail)

    @endpoint
    def shares(self, name: str) -> Call[Shares]:
        """Each user's recent share of the quota, which decides whose turn it is."""
        return get(f"virtual-clusters/{quote(name, safe='')}/shares", Shares)

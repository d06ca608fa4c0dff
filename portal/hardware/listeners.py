"""Services on a node that answer without authentication."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from nodes.protocol.states import ListenerKind
from portal.hardware.models import Node

LISTENERS = "listeners"
"""Key in a node's inventory; absent if nothing does."""

_NAMES: Mapping[str, str | Promise] = {
    ListenerKind.DOCKER: gettext_lazy("a Docker Engine"),
    ListenerKind.REDIS: "Redis",
    ListenerKind.MEMCACHED: "Memcached",
    ListenerKind.ETCD: "etcd",
    ListenerKind.KUBELET: gettext_lazy("a kubelet"),
    ListenerKind.JUPYTER: "Jupyter",
    ListenerKind.ELASTICSEARCH: "Elasticsearch",
    ListenerKind.MONGODB: "MongoDB",
    ListenerKind.POSTGRESQL: "PostgreSQL",
    ListenerKind.METRICS: gettext_lazy("figures for Prometheus"),
    ListenerKind.RAY: gettext_lazy("a dashboard of Ray"),
    ListenerKind.CONSUL: "Consul",
}


class Answering(NamedTuple):
    """One such service. ``everywhere``: on all addresses of the node, so that every job there reaches it."""

    kind: str
    address: str
    port: int

    @property
    def everywhere(self) -> bool:
        return ip_address(self.address).is_unspecified

    @property
    def figures(self) -> bool:
        """Whether it only serves metrics."""
        return self.kind == ListenerKind.METRICS

    @property
    def words(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return gettext("%(what)s at %(place)s") % {"what": _NAMES[self.kind], "place": f"{address}:{self.port}"}


def node_listeners(node: Node) -> list[Answering]:
    """The services last found, in order."""
    return [Answering(*told) for told in node.inventory.get(LISTENERS, ())]

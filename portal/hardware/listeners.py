"""What answers on a server without authentication, in words."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from nodes.protocol.states import ListenerKind
from portal.hardware.models import Node

LISTENERS = "listeners"
"""The key in a node's inventory; not there where nothing does."""

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
    """Something that does. ``everywhere``: at all addresses of the server, so that every job there reaches it."""

    kind: str
    address: str
    port: int

    @property
    def everywhere(self) -> bool:
        return ip_address(self.address).is_unspecified

    @property
    def figures(self) -> bool:
        """It gives figures, and takes nothing."""
        return self.kind == ListenerKind.METRICS

    @property
    def words(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return gettext("%(what)s at %(place)s") % {"what": _NAMES[self.kind], "place": f"{address}:{self.port}"}


def node_listeners(node: Node) -> list[Answering]:
    """What its agent found last, in its order."""
    return [Answering(*told) for told in node.inventory.get(LISTENERS, ())]

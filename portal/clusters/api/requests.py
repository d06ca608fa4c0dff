"""Filters of the lists of nodes and virtual clusters."""

from __future__ import annotations

import django_filters

from portal.clusters.models import Node, Sku, VirtualCluster
from portal.clusters.states import NodeHealth, NodeIntent
from portal.common.filters import ChoicesFilter, GivenFilter, NamedFilter


class NodeFilter(GivenFilter):
    """Filters of the list of nodes."""

    intent = ChoicesFilter(choices=NodeIntent.choices, help_text="one or several")
    health = ChoicesFilter(choices=NodeHealth.choices, help_text="one or several")
    sku = NamedFilter(Sku, "name", help_text="name of a SKU")
    rack = django_filters.CharFilter(help_text="label of a rack")

    class Meta:
        model = Node
        fields: tuple[str, ...] = ()


class VirtualClusterFilter(GivenFilter):
    """Filters of the list of virtual clusters."""

    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")

    class Meta:
        model = VirtualCluster
        fields: tuple[str, ...] = ()

"""Filters of the lists of nodes and virtual clusters."""

from __future__ import annotations

import django_filters

from portal.common.filters import ChoicesFilter, GivenFilter, NamedFilter
from portal.hardware.models import Node, Sku
from portal.hardware.states import NodeHealth, NodeIntent


class NodeFilter(GivenFilter):
    """Filters of the list of nodes."""

    of = Node

    intent = ChoicesFilter(choices=NodeIntent.choices, help_text="one or several")
    health = ChoicesFilter(choices=NodeHealth.choices, help_text="one or several")
    sku = NamedFilter(Sku, "name", help_text="name of a SKU")
    rack = django_filters.CharFilter(help_text="label of a rack")

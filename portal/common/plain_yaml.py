"""YAML of people who may be strangers."""

from __future__ import annotations

from typing import Any

import yaml
from django.utils.translation import gettext_lazy as _


class PlainLoader(yaml.SafeLoader):
    """YAML without anchors: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(_("Anchors and aliases are not taken here: write out what they stand for."))
        return super().compose_node(parent, index)

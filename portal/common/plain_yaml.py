"""YAML loaders for untrusted input."""

from __future__ import annotations

from typing import Any

import yaml
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

MERGE = "tag:yaml.org,2002:merge"


class UniqueLoader(yaml.SafeLoader):
    """Refuses duplicate keys in a mapping: the first value would be lost silently."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                if (key.tag, key.value) in seen:
                    problem = gettext("the key %(key)s stands twice in one mapping; keep one of them")
                    words = problem % {"key": key.value[:80]}
                    raise yaml.MarkedYAMLError(problem=words, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


class PlainLoader(UniqueLoader):
    """Also refuses anchors and aliases: a few lines of them can expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(_("Anchors and aliases are not taken here: write out what they stand for."))
        return super().compose_node(parent, index)

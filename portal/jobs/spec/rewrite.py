"""A job file with one value changed and all else as it was typed."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from portal.jobs.spec import raw
from portal.jobs.spec.loader import load
from portal.jobs.spec.problems import SpecInvalid

_DEFAULTS: Final = "defaults"
_VC: Final = "virtualCluster"


def with_virtual_cluster(source: str, vc: str) -> str:
    """The valid file `source` with another virtual cluster. Comments and order stay where the value can be changed at
    its place; a file that repeats it by an anchor is written anew."""
    value = load(source).value
    wanted = {**value, _DEFAULTS: {**raw.mapping(value, _DEFAULTS), _VC: vc}}
    changed = _in_place(source, vc)
    if changed is not None and _value(changed) == wanted:
        return changed
    return yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)


def _value(source: str) -> dict[str, Any] | None:
    try:
        return load(source).value
    except SpecInvalid:
        return None  # what was replaced was an anchor's place, which others refer to


def _in_place(source: str, vc: str) -> str | None:
    root = yaml.compose(source, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return None
    defaults = _entry(root, _DEFAULTS)
    if defaults is None:
        return _insert(source, root, f"{json.dumps(_DEFAULTS)}: {{{json.dumps(_VC)}: {json.dumps(vc)}}}")
    if not isinstance(defaults, yaml.MappingNode):
        return None
    old = _entry(defaults, _VC)
    if old is None:
        return _insert(source, defaults, f"{json.dumps(_VC)}: {json.dumps(vc)}")
    return source[: old.start_mark.index] + json.dumps(vc) + source[old.end_mark.index :]


def _entry(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    found: Any = next((value for name, value in node.value if name.value == key), None)
    return found if isinstance(found, yaml.Node) else None


def _insert(source: str, node: yaml.MappingNode, entry: str) -> str:
    """Put an entry before the mapping's first one."""
    start = node.start_mark.index
    if node.flow_style:
        return f"{source[: start + 1]}{entry}{', ' if node.value else ''}{source[start + 1 :]}"
    return f"{source[:start]}{entry}\n{' ' * node.start_mark.column}{source[start:]}"

"""Changes one value of a job file and keeps the rest as typed."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from portal.job_file import raw
from portal.job_file.loader import load
from portal.job_file.problems import SpecInvalid

VC: Final = ("defaults", "virtualCluster")
PRIORITY_CLASS: Final = ("extras", "hivedScheduler", "jobPriorityClass")


def with_value(source: str, path: tuple[str, ...], wanted: str) -> str:
    """The valid file `source` with another text at this path, such as `VC`. Comments and order are kept if the value
    can be changed in place; a file that repeats it by an anchor is dumped anew."""
    document = load(source)
    whole = _with(document.value, path, wanted)
    changed = _in_place(document.text, path, wanted)
    if changed is not None and _value(changed) == whole:
        return changed
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)


def _with(value: dict[str, Any], path: tuple[str, ...], wanted: str) -> dict[str, Any]:
    key, *below = path
    return {**value, key: _with(raw.mapping(value, key), tuple(below), wanted) if below else wanted}


def _value(source: str) -> dict[str, Any] | None:
    try:
        return load(source).value
    except SpecInvalid:
        return None  # the replaced text held an anchor that others refer to


def _in_place(source: str, path: tuple[str, ...], wanted: str) -> str | None:
    """The changed text; None if something on the path is no mapping."""
    node = yaml.compose(source, Loader=yaml.CSafeLoader)  # like `load`, accepts tabs that PyYAML's own refuses
    for place, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            return None
        below = _entry(node, key)
        if below is None:
            return _insert(source, node, _flow(path[place:], wanted))
        node = below
    return (
        None if node is None else source[: node.start_mark.index] + json.dumps(wanted) + source[node.end_mark.index :]
    )


def _flow(path: tuple[str, ...], wanted: str) -> str:
    key, *below = path
    return f"{json.dumps(key)}: {f'{{{_flow(tuple(below), wanted)}}}' if below else json.dumps(wanted)}"


def _entry(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    found: Any = next((value for name, value in node.value if name.value == key), None)
    return found if isinstance(found, yaml.Node) else None


def _insert(source: str, node: yaml.MappingNode, entry: str) -> str:
    """Inserts an entry before the mapping's first one."""
    start = node.start_mark.index
    if node.flow_style:
        return f"{source[: start + 1]}{entry}{', ' if node.value else ''}{source[start + 1 :]}"
    return f"{source[:start]}{entry}\n{' ' * node.start_mark.column}{source[start:]}"

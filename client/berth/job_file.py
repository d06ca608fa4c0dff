"""Edits job files, leaving every other character as it is."""

from __future__ import annotations

from typing import Any

import yaml

from berth.errors import Misused

WHERE = ("extras", "berth", "code")
_LOADERS = (getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader)
"""libyaml reads tabs that PyYAML's own loader refuses, as the server does; PyYAML's reads escapes of characters beyond
U+FFFF as JSON writes them. Not every PyYAML has libyaml."""


def with_code(document: str | bytes, code: str) -> str:
    """The job file (YAML or JSON) with ``extras.berth.code`` set to ``code``. Raises Misused where that would need
    rewriting it."""
    try:
        text = document if isinstance(document, str) else document.decode()
        loader = _loader(text)
        before, root = yaml.load(text, Loader=loader), yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Misused(f"the job file is no YAML: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise Misused("the job file is no YAML mapping: see berth check")
    changed = _set(text, root, WHERE, code)
    if not _is_as_wanted(changed, before, code, loader):
        raise Misused(f'extras.berth.code cannot be set in this job file: write there code: "{code}"')
    return changed


def _loader(text: str) -> Any:
    """The first loader that reads the text; else the last, whose error says why it does not."""
    for loader in _LOADERS[:-1]:
        try:
            yaml.compose(text, Loader=loader)
        except yaml.YAMLError:
            continue
        return loader
    return _LOADERS[-1]


def _set(text: str, node: yaml.MappingNode, path: tuple[str, ...], code: str) -> str:
    """The text with ``path`` set below ``node``, one of its mappings."""
    for key, value in node.value:
        if key.value == path[0]:
            if len(path) > 1 and isinstance(value, yaml.MappingNode) and value.value:
                return _set(text, value, path[1:], code)
            start, end = value.start_mark.index, value.end_mark.index
            space = "" if text[start - 1 : start].isspace() else " "
            return f"{text[:start]}{space}{_written(path[1:], code)}{text[end:]}"
    return _added(text, node, f"{_quoted(path[0], node)}: {_written(path[1:], code)}")


def _quoted(key: str, node: yaml.MappingNode) -> str:
    return f'"{key}"' if node.flow_style else key


def _written(path: tuple[str, ...], code: str) -> str:
    """The value below a path, in a form that is YAML and JSON."""
    inner = f'"{code}"'
    for key in reversed(path):
        inner = f'{{"{key}": {inner}}}'
    return inner


def _added(text: str, node: yaml.MappingNode, entry: str) -> str:
    """The text with one more entry, before the first of the mapping."""
    if node.flow_style:
        place = node.start_mark.index + 1
        return f"{text[:place]}{entry}{', ' if node.value else ''}{text[place:]}"
    first = node.value[0][0].start_mark
    return f"{text[: first.index]}{entry}\n{' ' * first.column}{text[first.index :]}"


def _is_as_wanted(changed: str, before: Any, code: str, loader: Any) -> bool:
    """Whether the new text means what the old one meant, with the code."""
    try:
        after = yaml.load(changed, Loader=loader)
        return bool(after["extras"]["berth"].pop("code") == code and _without(after) == _without(before))
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
        return False


def _without(job: Any) -> Any:
    """The job without its code, and without sections that hold nothing else."""
    extras = dict(job.get("extras") or {})
    berth = {key: value for key, value in (extras.pop("berth", None) or {}).items() if key != "code"}
    extras |= {"berth": berth} if berth else {}
    return {**{key: value for key, value in job.items() if key != "extras"}, **({"extras": extras} if extras else {})}

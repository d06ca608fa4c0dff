"""Differences between two descriptions of a thing, down to single values, for the audit log's pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, NamedTuple

MOST = 100
"""Differences shown of one entry; the export has the whole."""
LONGEST = 300
"""Characters shown of a value."""
ABSENT = "–"


class Difference(NamedTuple):
    """A value by its path (``virtualClusters.vision.virtualCells[0].cellNumber``), before and after."""

    path: str
    was: str
    became: str


def differences(before: Any, after: Any) -> list[Difference]:
    """The first ``MOST`` differences, in the order of ``before``; a missing value is a dash."""
    found = _differ("", {} if before is None else before, {} if after is None else after)
    return list(islice(found, MOST))


_NOTHING = object()


def _differ(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            yield from _differ(f"{path}.{name}" if path else name, _of(before, name), _of(after, name))
    elif isinstance(before, list) and isinstance(after, list) and _nested(before) and _nested(after):
        for place, (old, new) in enumerate(zip_longest(before, after, fillvalue=_NOTHING)):
            yield from _differ(f"{path}[{place}]", old, new)
    elif before is _NOTHING or after is _NOTHING or before != after:
        yield Difference(path, _worded(before), _worded(after))


def _of(values: Mapping[str, Any], name: str) -> Any:
    return values.get(name, _NOTHING)


def _nested(values: list[Any]) -> bool:
    """Whether it is a list of descriptions; a list of plain values is compared as a whole."""
    return bool(values) and all(isinstance(one, Mapping | list) for one in values)


def _worded(value: Any) -> str:
    if value is _NOTHING:
        return ABSENT
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

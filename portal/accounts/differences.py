"""Where two descriptions of a thing differ, down to the single values: what pages show of an audit log's entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, NamedTuple

MOST = 100
"""So many differences of one entry are shown; the export has all that was."""
LONGEST = 300
"""Of a value so many characters are shown."""
ABSENT = "–"


class Difference(NamedTuple):
    """A value by its path (``virtualClusters.vision.virtualCells[0].cellNumber``), as it was and as it is."""

    path: str
    was: str
    became: str


def differences(before: Any, after: Any) -> list[Difference]:
    """The first ``MOST`` of them, in the order of what there was; of what was not there, or is no more, a dash."""
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
    """Whether it is a list of descriptions; one of plain values is read as a whole."""
    return bool(values) and all(isinstance(one, Mapping | list) for one in values)


def _worded(value: Any) -> str:
    if value is _NOTHING:
        return ABSENT
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

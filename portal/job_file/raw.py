"""Lenient access to a file of any shape: a value of the wrong type counts as absent.

Checks beyond the schema also run on files that the schema refuses, so that a user sees every problem at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Raw = dict[str, Any]


def mapping(value: Any, *keys: str) -> Raw:
    """The mapping at `keys` below `value`, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The strings in the list `value`."""
    return [item for item in items(value) if isinstance(item, str)]


def text(value: Any) -> str | None:
    """`value` if it is a non-empty string."""
    return value if isinstance(value, str) and value else None


def whole(value: Any, default: int = 0) -> int:
    """`value` if it is a whole number (4.0 is one), else `default`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return default
    return int(value)


def roles(job: Raw) -> Iterator[tuple[str, Raw]]:
    """The task roles that are mappings, by name, in the order of the file."""
    for name, role in mapping(job, "taskRoles").items():
        if isinstance(role, dict):
            yield name, role


def named(value: Any) -> dict[str, Raw]:
    """Mappings in the list `value` by their `name`; the first of a name wins."""
    found: dict[str, Raw] = {}
    for item in items(value):
        name = text(mapping(item).get("name"))
        if name is not None:
            found.setdefault(name, item)
    return found


def prerequisites(job: Raw, kind: str) -> dict[str, Raw]:
    """The prerequisites of one type by name."""
    return named([item for item in items(job.get("prerequisites")) if mapping(item).get("type") == kind])


def gang(job: Raw) -> bool:
    """Whether all tasks start together, the default."""
    return mapping(job, "extras").get("gangAllocation") is not False


def elastic(job: Raw, role: str) -> Raw:
    """What `extras.berth.elastic` says of the role."""
    return mapping(job, "extras", "berth", "elastic", role)


def task_range(job: Raw, name: str, role: Raw) -> tuple[int, int]:
    """How many tasks the role has at least and at most: its `instances`, unless `extras.berth.elastic` says more."""
    instances, given = max(whole(role.get("instances"), 1), 0), elastic(job, name)
    return whole(given.get("min"), instances), whole(given.get("max"), instances)


def priority_class(job: Raw) -> str | None:
    """The class that the file names."""
    return text(mapping(job, "extras", "hivedScheduler").get("jobPriorityClass"))

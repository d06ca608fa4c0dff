"""Why a job waits for its storages, in words."""

from __future__ import annotations

from collections.abc import Collection

from portal.clusters.selectors import StorageTies
from portal.common.sentences import some_of
from portal.dispatch.dependencies import HeldBack

NAMED = 5


def storages_lacking(
    ties: StorageTies, needed: Collection[str], named: frozenset[str], left: frozenset[str]
) -> HeldBack | None:
    """Why none of the nodes that a job names (or all) can have it for the storages that it needs; ``left`` are those of
    them that have these. None where one can, or where it is not the storages that are in the way."""
    here = named & ties.accepted
    if not needed or not here or left & ties.healthy:
        return None
    for name in needed:
        if here <= ties.apart[name]:
            return HeldBack("storage", _nobody(ties, name, here))
    up = here & ties.healthy
    for name in needed if up else ():
        if up <= ties.apart[name]:
            silent = some_of(sorted(here - ties.apart[name]), NAMED)
            return HeldBack("storage", f"the servers that have {name} do not answer: {silent}")
    both = up and f"no server that it may run on has all of its storages: {', '.join(needed)}"
    return HeldBack("storage", both) if both else None


def _nobody(ties: StorageTies, name: str, here: frozenset[str]) -> str:
    away = {node: why for node, why in ties.away.get(name, {}).items() if node in here}
    if not away:
        return f"no server that it may run on is tied to {name}"
    node = min(away)
    return f"no server that it may run on offers {name} now: {node} ({away[node]})"

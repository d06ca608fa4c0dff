"""Whether no node, or none of a GPU kind, takes new jobs: drained, cordoned or lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, QuerySet
from django.utils.translation import gettext, gettext_noop

from portal.common.prepared import Prepared
from portal.hardware.models import Node, intent_now, takes_tasks
from portal.hardware.outages import SHORT
from portal.hardware.states import NodeHealth, NodeIntent, Stuck

NAMED = 3
_TAKES = takes_tasks()


@dataclass(frozen=True, slots=True)
class Closed:
    """All nodes, or (with ``sku``) all with this kind of GPU. ``states``: how many are in which state, ``names``: the
    first of them, ``reasons``: why, as administrators wrote."""

    sku: str
    states: tuple[tuple[str, int], ...]
    names: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def nodes(self) -> int:
        """How many nodes are closed."""
        return sum(count for _, count in self.states)

    @property
    def what(self) -> str:
        """A sentence that says so."""
        if self.sku:
            return gettext("No server with %(sku)s takes new jobs.") % {"sku": self.sku}
        return gettext("No server takes new jobs.")

    @property
    def why(self) -> str:
        """Names and states: ``gpu01, gpu02: 1 draining, 1 lost (a new fan)``."""
        states = ", ".join(gettext(_WORDS[state]) % {"number": count} for state, count in self.states)
        names = ", ".join([*self.names, *(["…"] if self.nodes > NAMED else [])])
        return f"{names}: {states}" + (f" ({'; '.join(self.reasons)})" if self.reasons else "")


_WORDS: dict[str, str] = {
    NodeIntent.DRAINING: gettext_noop("%(number)s draining"),
    NodeIntent.CORDONED: gettext_noop("%(number)s cordoned"),
    NodeHealth.LOST: gettext_noop("%(number)s lost"),
}


def servers_closed() -> list[Closed]:
    """The whole cluster as one, else each kind of GPU for which no node takes jobs; usually none. Nodes that never
    reported or are pending do not count. One query, and one more if something is closed."""
    rows = _COUNTED()
    if rows and not any(takes for _, _, takes in rows):
        return [_closed("", _came())]
    return [_closed(sku, _came().filter(sku__name=sku)) for sku, _, takes in sorted(rows, key=str) if sku and not takes]


def _came() -> QuerySet[Node]:
    return Node.objects.exclude(health=NodeHealth.UNKNOWN).filter(accepted__isnull=False).order_by()


def _counted() -> QuerySet[Node, tuple[str | None, int, int]]:
    return _came().values_list("sku__name").annotate(there=Count("pk"), open=Count("pk", filter=_TAKES))


_COUNTED = Prepared(_counted)


def _closed(sku: str, nodes: QuerySet[Node]) -> Closed:
    columns = ("name", "health", intent_now(), "intent", "intent_reason", "full_since", "out_since", "stuck_cause",
               "health_reason")  # fmt: skip
    rows = list(nodes.order_by("name").values_list(*columns))
    states = Counter(NodeHealth.LOST if health == NodeHealth.LOST else intent for _, health, intent, *_ in rows)
    reasons = [reason for *_, wanted, reason, _full, _out, _stuck, _why in rows if reason and wanted != NodeIntent.OPEN]
    found = {
        "full": any(full for *_, full, _out, _stuck, _why in rows),
        "out": any(out for *_, out, _stuck, _why in rows),
        "silent": any(why for _, health, *_, why in rows if health == NodeHealth.HEALTHY),
    }
    found |= {cause: any(stuck == cause for *_, stuck, _why in rows) for cause in Stuck}
    reasons += [gettext(SHORT[name]) for name, there in found.items() if there]
    return Closed(
        sku,
        tuple((state, states[state]) for state in _WORDS if states[state]),
        tuple(name for name, *_ in rows[:NAMED]),
        tuple(dict.fromkeys(reasons))[:NAMED],
    )

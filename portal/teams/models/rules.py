"""How a virtual cluster's rule is declared: as a column that says all else of itself. From it come the field of the
form, of the API's body and answer, its words in events, the audit log's entry, its row on the page, and the engine's
rule of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodes.protocol.wording import Wording
from portal.common.columns import Column, asked


@dataclass(frozen=True, slots=True)
class Rule:
    """``event``: what events call it; ``row``: its label on the page of its virtual cluster, empty: shown with another;
    ``by_leads``: leads may change it, all others only administrators."""

    event: Wording
    row: Any
    by_leads: bool


def rule(column: Column, *words: Any, event: Wording, row: Any = "", by_leads: bool = False, **more: Any) -> Column:
    """The column as a rule; ``words`` and the rest: see ``asked``."""
    column.rule = Rule(event, row, by_leads)  # type: ignore[attr-defined]
    return asked(column, *words, **more)


def rules_of(model: Any) -> dict[str, Rule]:
    """The rules by the names of their columns, in the order of these."""
    return {one.name: one.rule for one in model._meta.concrete_fields if hasattr(one, "rule")}

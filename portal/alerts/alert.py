"""What an alert is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from portal.alerts.models import KEY_LENGTH, AlertSilence


class Severity(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"  # work stops, or is about to
    WARNING = "warning"  # something is lost until somebody acts
    INFO = "info"

    def worse_than(self, other: Severity) -> bool:
        return SEVERITIES.index(self) < SEVERITIES.index(other)


SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is wrong now. ``kind`` and ``name`` say of what; ``since`` is None where no row tells. ``vcs``:
    the virtual clusters that it concerns by name, whose leads read it too. ``ref`` stands for the name in the key where
    the name is not the alert's alone, or is worded. ``silence``: that it is not told; None where nobody asked.
    ``source``: which of the questions found it."""

    code: str
    severity: Severity
    kind: str
    name: str
    message: str
    advice: str
    since: datetime | None = None
    vcs: tuple[str, ...] = ()
    ref: str = ""
    silence: AlertSilence | None = None
    source: str = ""

    @property
    def key(self) -> str:
        """What it is known by from one look to the next, in every language."""
        return f"{self.code}:{self.kind}:{self.ref or self.name}"[:KEY_LENGTH]

    @property
    def node(self) -> str:
        """The node that it is about; empty where it is about none."""
        return self.name.partition("/")[0] if self.kind in {"node", "gpu"} else ""

    @property
    def rank(self) -> tuple[bool, int, str, str]:
        """The worst first, those that are silenced last."""
        return self.silence is not None, SEVERITIES.index(self.severity), self.code, self.name

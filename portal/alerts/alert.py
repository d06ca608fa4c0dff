"""The type of an alert."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from portal.alerts.models import KEY_LENGTH, AlertSilence


class Severity(StrEnum):
    """How bad an alert is, the worst first."""

    CRITICAL = "critical"  # work stops, or is about to
    WARNING = "warning"  # something is lost until somebody acts
    INFO = "info"

    def worse_than(self, other: Severity) -> bool:
        return SEVERITIES.index(self) < SEVERITIES.index(other)


SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is wrong now. ``kind`` and ``name`` identify the thing; ``since`` is None if no row tells.
    ``vcs``: names of the virtual clusters concerned, whose leads see it too. ``ref`` replaces the name in the key where
    the name is not unique to the alert, or is translated. ``silence``: its silence; None if there is none or it was not
    looked up. ``source``: the name of the check that found it."""

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
        """Identifies it from one look to the next, in every language."""
        return f"{self.code}:{self.kind}:{self.ref or self.name}"[:KEY_LENGTH]

    @property
    def node(self) -> str:
        """The node that it is about; empty if none."""
        return self.name.partition("/")[0] if self.kind in {"node", "gpu"} else ""

    @property
    def rank(self) -> tuple[bool, int, str, str]:
        """Sort key: the worst first, silenced ones last."""
        return self.silence is not None, SEVERITIES.index(self.severity), self.code, self.name

"""A node's clock against the portal's: event and log times are the node's, and orders expire by its clock."""

from __future__ import annotations

from django.utils.translation import gettext

from portal.common.sentences import worded
from portal.hardware.wordings import CLOCK_AHEAD, CLOCK_BEHIND

LIMIT_MS = 5_000
BELIEVED_MS = 1_000
"""The most that one report may lower the estimate: a delayed report looks like a slow clock."""


def skew_after(*, before_ms: int, late_ms: int) -> int:
    """How far the node's clock is ahead of the portal's (negative: behind), given one more report, ``late_ms`` later
    than those of others."""
    return max(-late_ms, min(before_ms, 0) - BELIEVED_MS)


def clock_fault(skew_ms: int) -> str:
    """The fault of a clock this far off, with its remedy; empty within ``LIMIT_MS``."""
    return f"{clock_wrong(skew_ms)} {clock_cure()}" if abs(skew_ms) > LIMIT_MS else ""


def clock_said(skew_ms: int) -> str:
    """How far it is off, and what follows, as a declared sentence."""
    return (CLOCK_AHEAD if skew_ms > 0 else CLOCK_BEHIND)(seconds=abs(skew_ms) // 1000)


def clock_wrong(skew_ms: int) -> str:
    """The same in the reader's language."""
    return worded(clock_said(skew_ms))


def clock_cure() -> str:
    """The remedy for it."""
    return gettext("Let chrony or systemd-timesyncd set the clocks of all servers.")

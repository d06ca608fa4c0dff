"""A node's clock beside the portal's: times of events and logs are the node's, and orders expire by its clock."""

from __future__ import annotations

from django.utils.translation import gettext, gettext_noop

LIMIT_MS = 5_000
BELIEVED_MS = 1_000
"""A report that was late in coming looks like a clock that is behind: that is believed by so much at a time."""

_AHEAD = gettext_noop(
    "Its clock is %(seconds)s s ahead of the portal's: times of its tasks and logs are wrong by that, and orders may "
    "expire on their way."
)
_BEHIND = gettext_noop(
    "Its clock is %(seconds)s s behind the portal's: times of its tasks and logs are wrong by that, and orders may "
    "expire on their way."
)


def skew_after(*, before_ms: int, late_ms: int) -> int:
    """How far the node's clock is ahead of the portal's (negative: behind), as known after one more report, which came
    so late beside those of others."""
    return max(-late_ms, min(before_ms, 0) - BELIEVED_MS)


def clock_fault(skew_ms: int) -> str:
    """What is wrong with a clock that is off by so much, and its cure; empty where it is good enough."""
    return f"{clock_wrong(skew_ms)} {clock_cure()}" if abs(skew_ms) > LIMIT_MS else ""


def clock_wrong(skew_ms: int) -> str:
    """By how much it is off, and what comes of that."""
    words = gettext(_AHEAD) if skew_ms > 0 else gettext(_BEHIND)
    return words % {"seconds": abs(skew_ms) // 1000}


def clock_cure() -> str:
    """What to do about it."""
    return gettext("Let chrony or systemd-timesyncd set the clocks of all servers.")

"""Sentences that are stored of containers that the portal does not know."""

from __future__ import annotations

from nodes.protocol.wording import Wording

TOO_MANY = Wording(
    "containers_too_many", "Node %(node)s tells of %(number)s unknown containers; %(noted)s of them are noted."
)
UNKNOWN = Wording(
    "container_unknown",
    "Node %(node)s runs the container of a task attempt that this portal does not know: %(attempt)s.",
)
GONE = Wording("container_unknown_gone", "The unknown container of task attempt %(attempt)s is gone.")
STOPPED = Wording("container_unknown_stop", "The unknown container of task attempt %(attempt)s is stopped.")
STOPPED_FOR = Wording(
    "container_unknown_stop_for", "The unknown container of task attempt %(attempt)s is stopped: %(why)s"
)

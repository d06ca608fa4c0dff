"""Leases of job folders: while a lease file still changes, an earlier attempt may still be writing there."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.agent.storage.folders import lease_location, lease_reading
from nodes.protocol.messages import ContainerSpec


@dataclass(slots=True)
class LeaseWatch:
    """Watches one lease file by this agent's own monotonic clock; times on the file server do not matter. ``still_s``:
    how long the file must not change."""

    root: str
    path: str
    still_s: float
    _seen: tuple[int, bytes] | None = None
    _since: float | None = None

    def remaining(self, now: float) -> float:
        """Seconds left to wait; 0 when the lease has stood still long enough, or is not there."""
        reading = lease_reading(self.root, self.path)
        if reading is None:
            return 0.0
        if self._since is None or reading != self._seen:
            self._seen, self._since = reading, now
        return max(0.0, self._since + self.still_s - now)


def lease_watch(spec: ContainerSpec, still_s: float) -> LeaseWatch | None:
    """The watch that a spec asks for; None when it need not wait."""
    location = lease_location(spec)
    if location is None or spec.lease is None or spec.lease_after is None:
        return None
    return LeaseWatch(root=location[0].root, path=spec.lease, still_s=still_s)

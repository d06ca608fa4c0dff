"""Every user's fair share, for the pages, by the scheduler's own book."""

from __future__ import annotations

from collections import defaultdict

from portal.teams.fairness import Shares, shares_keep
from scheduling import Snapshot
from scheduling.queue.usage_history import UsageHistory


def shares_find(*, snapshot: Snapshot, now_ms: int) -> Shares:
    """Compute the share of everybody who has usage or a job, and store it for the pages."""
    book = UsageHistory(snapshot.cluster, snapshot.usage)
    for running in snapshot.running:
        book.update(running.job, running.tasks)
    shares = book.shares(now_ms)
    found: Shares = defaultdict(dict)
    for vc, user in sorted({*book.held, *book.past}):
        found[vc][user] = shares.of(vc, user)
    shares_keep(found)
    return found

"""Log sizes of a virtual cluster against its quota."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist

from portal.teams.models import KeptLogs, VirtualCluster

GB = 1 << 30
NEARLY = 90
"""Percent of the quota from which its leads are warned."""


@dataclass(frozen=True, slots=True)
class LogRoom:
    """Bytes as they were written, as last counted: of jobs that are ``over``, of all others (``live``), and the quota
    for the former (``limit``; 0: all are kept)."""

    over: int
    live: int
    limit: int
    counted_at: datetime

    @property
    def percent(self) -> int:
        """Percent of the quota; 0 without one."""
        return 100 * self.over // self.limit if self.limit else 0

    @property
    def nearly_full(self) -> bool:
        """Whether logs will soon be dropped for space."""
        return self.percent >= NEARLY

    @property
    def live_too_large(self) -> bool:
        """Whether live jobs have written more than is kept of them once they are over."""
        return 0 < self.limit < self.live


def log_limit(vc: VirtualCluster) -> int:
    """Bytes of logs kept of its finished jobs; 0: all."""
    return (settings.LOG_QUOTA_GB if vc.log_quota_gb is None else vc.log_quota_gb) * GB


def log_room(kept: KeptLogs) -> LogRoom:
    """The count and the quota. Needs the virtual cluster loaded."""
    return LogRoom(kept.over, kept.live, log_limit(kept.vc), kept.counted_at)


def vc_log_room(*, vc: VirtualCluster) -> LogRoom | None:
    """None before the first count."""
    try:
        return log_room(vc.kept_logs)
    except ObjectDoesNotExist:
        return None

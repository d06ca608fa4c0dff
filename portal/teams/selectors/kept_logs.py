"""What a virtual cluster's logs take, beside what may be kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist

from portal.teams.models import KeptLogs, VirtualCluster

GB = 1 << 30
NEARLY = 90
"""Percent of the quota from which on its leads are told."""


@dataclass(frozen=True, slots=True)
class LogRoom:
    """Bytes as they were written, as last counted: of jobs that are ``over``, of those that are not (``live``), and how
    many of the former are kept (``limit``; 0: all)."""

    over: int
    live: int
    limit: int
    counted_at: datetime

    @property
    def percent(self) -> int:
        """Of the quota; 0 where there is none."""
        return 100 * self.over // self.limit if self.limit else 0

    @property
    def nearly_full(self) -> bool:
        """Whether logs go soon that would be kept else."""
        return self.percent >= NEARLY

    @property
    def live_too_large(self) -> bool:
        """Whether jobs that run have written more than is kept of them once they are over."""
        return 0 < self.limit < self.live


def log_limit(vc: VirtualCluster) -> int:
    """Bytes of logs that are kept of its jobs that are over; 0: all."""
    return (settings.LOG_QUOTA_GB if vc.log_quota_gb is None else vc.log_quota_gb) * GB


def log_room(kept: KeptLogs) -> LogRoom:
    """The count beside the quota. Needs the virtual cluster loaded."""
    return LogRoom(kept.over, kept.live, log_limit(kept.vc), kept.counted_at)


def vc_log_room(*, vc: VirtualCluster) -> LogRoom | None:
    """None before the first count."""
    try:
        return log_room(vc.kept_logs)
    except ObjectDoesNotExist:
        return None

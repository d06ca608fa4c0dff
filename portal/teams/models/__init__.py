"""Virtual clusters: who is in them, their rules, what is guaranteed to them, and what their logs take."""

from portal.teams.models.kept_logs import KeptLogs
from portal.teams.models.quotas import (
    ClusterVersion,
    FirmRight,
    LoanLimit,
    PinnedCell,
    QuotaChange,
    QuotaChangeLine,
    QuotaLine,
)
from portal.teams.models.teams import Membership, VcEvent, VirtualCluster

__all__ = [
    "ClusterVersion",
    "FirmRight",
    "KeptLogs",
    "LoanLimit",
    "Membership",
    "PinnedCell",
    "QuotaChange",
    "QuotaChangeLine",
    "QuotaLine",
    "VcEvent",
    "VirtualCluster",
]

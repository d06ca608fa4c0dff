"""Rows of virtual clusters: members, rules, guarantees, and the size of their logs."""

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
from portal.teams.models.teams import RULES, Membership, VcEvent, VirtualCluster

__all__ = [
    "RULES",
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

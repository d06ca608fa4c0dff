"""Rows: the hardware, the virtual clusters with their quota, and storages."""

from portal.clusters.models.hardware import (
    BAD_GPU,
    CellType,
    Gpu,
    GpuCount,
    Node,
    NodeEvent,
    PinnedCell,
    ReportsLane,
    Sku,
    UpperCell,
    intent_now,
    takes_tasks,
)
from portal.clusters.models.images import ImageRule
from portal.clusters.models.joining import JoinToken
from portal.clusters.models.quotas import ClusterVersion, FirmRight, LoanLimit, QuotaChange, QuotaChangeLine, QuotaLine
from portal.clusters.models.secrets import SecretKind, StoredSecret
from portal.clusters.models.storages import Storage
from portal.clusters.models.teams import Membership, VcEvent, VirtualCluster
from portal.clusters.models.upkeep import Backup, DataFolder, KeptLogs, Restore

__all__ = [
    "JoinToken",
    "Backup",
    "CellType",
    "ClusterVersion",
    "DataFolder",
    "FirmRight",
    "BAD_GPU",
    "Gpu",
    "GpuCount",
    "ImageRule",
    "KeptLogs",
    "LoanLimit",
    "Membership",
    "Node",
    "NodeEvent",
    "PinnedCell",
    "QuotaChange",
    "QuotaChangeLine",
    "QuotaLine",
    "ReportsLane",
    "Restore",
    "SecretKind",
    "Sku",
    "Storage",
    "StoredSecret",
    "UpperCell",
    "VcEvent",
    "VirtualCluster",
    "intent_now",
    "takes_tasks",
]

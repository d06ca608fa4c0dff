"""Who changed last what several may change at one moment."""

from __future__ import annotations

from portal.accounts.audit import audit_last
from portal.accounts.models import Audited, AuditEntry

_OF_THE_CLUSTER = (
    Audited.QUOTA, Audited.QUOTA_CHANGE, Audited.CLUSTER, Audited.FIRM_RIGHT, Audited.VC_REMOVE, Audited.NODE_REMOVE,
    Audited.NODE_TOPOLOGY,
)  # fmt: skip
"""What raises the version that all cells and quotas have together."""


def quotas_changed_last() -> AuditEntry | None:
    """What somebody last did to the cells or quotas of the cluster. One query."""
    return audit_last(*_OF_THE_CLUSTER)

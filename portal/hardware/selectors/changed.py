"""Who last changed what several may change at once."""

from __future__ import annotations

from portal.accounts.audit import audit_last
from portal.accounts.models import Audited, AuditEntry

_OF_THE_CLUSTER = (
    Audited.QUOTA, Audited.QUOTA_CHANGE, Audited.CLUSTER, Audited.FIRM_RIGHT, Audited.VC_REMOVE, Audited.NODE_REMOVE,
    Audited.NODE_TOPOLOGY,
)  # fmt: skip
"""Actions that raise the version shared by all cells and quotas."""


def quotas_changed_last() -> AuditEntry | None:
    """The last audited change of the cluster's cells or quotas. One query."""
    return audit_last(*_OF_THE_CLUSTER)

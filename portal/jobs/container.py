"""Constants and defaults shared by every task's container."""

from __future__ import annotations

from django.conf import settings

WORKDIR = "/workspace"


def grace_seconds(wanted: int | None) -> int:
    """A job's grace period: its own or the default, capped by the administrator's limit."""
    return min(settings.DEFAULT_GRACE_S if wanted is None else wanted, settings.MAX_GRACE_S)


MASTER_PORT_LABEL = "berth_master"


PAI_PORTS = ("ssh", "http")
"""Port labels that every task has in OpenPAI, whatever its file declares."""


SSH_ASKED = {"state": "asked"}

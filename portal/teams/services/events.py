"""Writes events of virtual clusters."""

from __future__ import annotations

from datetime import datetime

from nodes.protocol.wording import stored
from portal.teams.models import VcEvent, VirtualCluster


def vc_event(*, vc: VirtualCluster, code: str, message: str, now: datetime, actor: str = "") -> None:
    """Records an event inside the caller's transaction. Raises TypeError for a message that is not declared."""
    VcEvent.objects.create(vc=vc, at=now, code=code, data=stored(message), actor=actor)

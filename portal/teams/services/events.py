"""Writes events of virtual clusters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from nodes.protocol.wording import stored
from portal.teams.models import VcEvent, VirtualCluster


def vc_event(*, vc: VirtualCluster, code: str, message: str, now: datetime, actor: str = "") -> None:
    """Records an event inside the caller's transaction. Raises TypeError for a message that is not declared."""
    vc_events(messages=[(vc.pk, message)], code=code, now=now, actor=actor)


def vc_events(*, messages: Iterable[tuple[int, str]], code: str, now: datetime, actor: str = "") -> None:
    """Records events of one kind, each a message of the virtual cluster with this primary key, as `vc_event` does."""
    VcEvent.objects.bulk_create(
        VcEvent(vc_id=vc, at=now, code=code, data=stored(message), actor=actor) for vc, message in messages
    )

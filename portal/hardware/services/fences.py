"""Fences off GPUs that a node reports as sick until somebody puts them back, with a reason; so is a node that is out.

``told`` is what the node reports. A fence outlives it: hardware that failed once and answers again is not well. Only
what is no hardware fault (a process that no job started, MIG mode) ends by itself. If a GPU is put back despite the
report, that very sentence fences no more (``accepted``) until the node has reported it healthy.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Concat
from django.utils.translation import gettext

from nodes.protocol.messages import GpuInfo
from nodes.protocol.names import FOREIGN_PROCESS, MIG_MODE
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict, NotFound
from portal.hardware import wordings
from portal.hardware.models import Gpu, Node
from portal.hardware.outages import FOUND_BY_NODE
from portal.hardware.services.nodes import node_event

_PASSING = (FOREIGN_PROCESS, MIG_MODE)
"""Faults reported of healthy GPUs, which only these keep from use."""
_FENCES_OF_THESE = tuple(FOUND_BY_NODE + one for one in _PASSING)


def fence_columns(row: Gpu, info: GpuInfo) -> dict[str, object]:
    """A GPU's columns after its node's newest report."""
    told = "" if info.healthy else info.fault or "the GPU is not healthy"
    accepted = row.accepted if told else ""
    return {"told": told, "accepted": accepted, "fault": _fault(row, told, accepted)}


def _fault(row: Gpu, told: str, accepted: str) -> str:
    ours = row.fault.startswith(FOUND_BY_NODE)
    if row.fault and not ours:
        return row.fault  # somebody else's fence stays
    by_itself = row.fault.startswith(_FENCES_OF_THESE)
    if row.fault and not by_itself and told.startswith(_PASSING):
        return row.fault  # a fence that ends by itself must not replace the hardware's
    if told and told != accepted:
        return FOUND_BY_NODE + told
    return "" if not told and by_itself else row.fault


def fences_lift(gpus: QuerySet[Gpu]) -> None:
    """Remove fences that were put up by others than the node. Hardware faults reported meanwhile fence at once: the
    next report would come after a job has been placed there."""
    nothing = Q(told="") | Q(told=F("accepted"))
    told = Concat(Value(FOUND_BY_NODE), F("told"), output_field=TextField())
    gpus.update(fault=Case(When(nothing, then=Value("")), default=told, output_field=TextField()))


def _put_back(row: Gpu) -> dict[str, str]:
    """A GPU's columns once it is put back. A foreign process or MIG mode was not fenced while the hardware's fence
    stood: its own fence goes up now, and ends with it."""
    if row.told.startswith(_PASSING) and not row.fault.startswith(_FENCES_OF_THESE):
        return {"fault": FOUND_BY_NODE + row.told, "accepted": ""}
    return {"fault": "", "accepted": row.told}


def node_put_back(
    *, node: Node, reason: str, actor: str, now: datetime, gpus: Collection[str] | None = None
) -> list[str]:
    """Return a node that is out, and its GPUs fenced off by its own reports, to the scheduler; ``gpus``: only these by
    UUID, and not the node. Returns the UUIDs of those that were fenced. Raises NotFound for a GPU that it does not
    have, Conflict if there is nothing to put back."""
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        rows = _fenced(held, gpus)
        out = gpus is None and held.trials > 0
        if not rows and not out:
            raise Conflict(gettext("Nothing of %(node)s is fenced off by what it said itself.") % {"node": held.name})
        for row in rows:
            Gpu.objects.filter(pk=row.pk).update(**_put_back(row))
        if out:
            Node.objects.filter(pk=held.pk).update(out_since=None, out_cause="", trial_at=None, trials=0)
        names = [wordings.GPU(index=row.index) for row in rows] + ([wordings.THE_NODE()] if out else [])
        message, gpus = wordings.PUT_BACK(names=names, node=held.name, why=reason), [row.uuid for row in rows]
        node_event(node=held, code="put_back", message=message, now=now, actor=actor, gpus=gpus)
        before = {"gpus": {row.uuid: row.fault for row in rows}, "out": held.out_cause if out else None}
        audit_write(
            Audited.NODE_PUT_BACK, actor=actor, target=held.name, now=now, before=before, after={"reason": reason}
        )
    return [row.uuid for row in rows]


def _fenced(node: Node, wanted: Collection[str] | None) -> list[Gpu]:
    rows = list(Gpu.objects.select_for_update().filter(node=node).order_by("index"))
    if wanted is not None and (unknown := set(wanted) - {row.uuid for row in rows}):
        raise NotFound("GPU", min(unknown))
    return [row for row in rows if row.fault.startswith(FOUND_BY_NODE) and (wanted is None or row.uuid in wanted)]

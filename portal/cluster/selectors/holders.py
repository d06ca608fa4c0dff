"""Holders of all GPUs of the cluster at once: requested by every open map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db.models import Model, QuerySet

from portal.common.bulk import keys_listed
from portal.common.prepared import Among, Prepared
from portal.common.row_versions import KeptResult
from portal.hardware.models import Gpu, Node
from portal.teams.selectors.shares import HELD, LIVE


class Holder(msgspec.Struct, frozen=True):
    """The task that holds a GPU, and its job."""

    job_id: int
    job_name: str
    run: int
    user_id: int
    username: str
    vc_id: int
    vc: str
    role: str
    index: int
    standing: str

    @property
    def label(self) -> str:
        """``user/name#run``."""
        return f"{self.username}/{self.job_name}#{self.run}"


class Held(NamedTuple):
    """A task attempt, and how it holds a GPU."""

    attempt: UUID
    holder: Holder


MANY = 500
"""From this many GPUs on, the cached holders of the whole cluster beat a query for these."""


def gpu_holders(*, gpus: Sequence[int]) -> dict[int, Holder]:
    """Holder of each held GPU among these, by GPU id. One query, or those of ``gpus_held``."""
    if len(gpus) < MANY:
        return {row[0]: Holder(*row[1:]) for row in _HOLDERS(gpus=gpus)}
    held = gpus_held()
    return {gpu: held[gpu].holder for gpu in gpus if gpu in held}


def _holders() -> QuerySet[Gpu, tuple[Any, ...]]:
    task = "allocations__task_attempt__task__"
    columns = (f"{task}{name}" for name in _OF_TASK)
    return Gpu.objects.filter(LIVE, Among("id", "gpus")).order_by().values_list("pk", *columns, "allocations__standing")


def gpus_held() -> Mapping[int, Held]:
    """Holder of each held GPU of the cluster, by GPU id; read-only. One query while nothing was given or released, else
    three."""
    return _KEPT.read()


def _held_find() -> Mapping[int, Held]:
    """GPUs first, then their holders: a join made the database go through every task there ever was."""
    rows = list(Gpu.objects.filter(LIVE).order_by().values_list("pk", _ATTEMPT, "allocations__standing"))
    attempts = Node._meta.get_field("task_attempts").related_model
    assert isinstance(attempts, type)
    assert issubclass(attempts, Model)
    keys = keys_listed(attempts, {attempt for _, attempt, _ in rows})
    rows_of = Node.objects.filter(task_attempts__pk__in=keys).order_by()
    tasks = rows_of.values_list("task_attempts__pk", *(f"task_attempts__task__{name}" for name in _OF_TASK))
    known = {key: columns for key, *columns in tasks}
    made: dict[tuple[UUID, str], Held] = {}
    found = {}
    for gpu, attempt, standing in rows:
        if attempt in known:
            one = made.get((attempt, standing))
            if one is None:
                one = made[attempt, standing] = Held(attempt, Holder(*(*known[attempt], standing)))
            found[gpu] = one
    return found


_ATTEMPT = "allocations__task_attempt"
_OF_TASK = (
    *(f"job__{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
    *("role__name", "index"),
)
_HOLDERS = Prepared(_holders)
_KEPT = KeptResult(HELD, _held_find)
"""A job's name and owner change while it waits, if ever."""

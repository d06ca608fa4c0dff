"""Who holds which GPU, of the whole cluster at once: asked for by every open map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from django.db.models import Model

from portal.clusters.models import Gpu, Node
from portal.clusters.selectors.loads import Holder
from portal.clusters.selectors.shares import LIVE
from portal.common.bulk import keys_listed
from portal.common.row_versions import KeptResult, RowsVersion


class Held(NamedTuple):
    """A task attempt, and as whom it holds a GPU."""

    attempt: UUID
    holder: Holder


def gpus_held() -> Mapping[int, Held]:
    """The holder of each held GPU of the cluster, by the GPU's id; nobody may change it. One query as long as nothing
    was given or released, else three."""
    return _kept.read()


def _held_find() -> Mapping[int, Held]:
    """GPUs first, then whose they are: both at once had the database go through every task there ever was."""
    rows = list(Gpu.objects.filter(LIVE).order_by().values_list("pk", _ATTEMPT, "allocations__standing"))
    attempts = Node._meta.get_field("task_attempts").related_model
    assert isinstance(attempts, type)
    assert issubclass(attempts, Model)
    keys = keys_listed(attempts, {attempt for _, attempt, _ in rows})
    tasks = Node.objects.filter(task_attempts__pk__in=keys).order_by().values_list("task_attempts__pk", *_OF_TASK)
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
_JOB = "task_attempts__task__job__"
_OF_TASK = (
    *(f"{_JOB}{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
    *("task_attempts__task__role__name", "task_attempts__task__index"),
)


def _models() -> list[type[Model]]:
    allocations = Gpu._meta.get_field("allocations").related_model
    assert isinstance(allocations, type)
    return [Gpu, allocations]


_kept = KeptResult(RowsVersion(lambda: Gpu.objects.filter(LIVE).order_by(), _models), _held_find)
"""What a job is called and whose it is changes while it waits, if ever."""

"""A plan -> rows -> orders. Each decision is a short transaction of its own that checks the world is still as the
plan saw it; what is not, is skipped and decided again by the next cycle."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, OperationalError, transaction

import scheduling
from portal.clusters.models import Node
from portal.clusters.states import NodeHealth, NodeIntent
from portal.common.failpoint import failpoint
from portal.dispatch.snapshot import Loaded
from portal.jobs.models import Job
from portal.jobs.services import Leaf, NoPortLeft, Overtaken, Placed, Waiting, attempt_start, job_hold, waits_write

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Applied:
    """What became of a plan."""

    started: int = 0
    skipped: int = 0
    reasons: int = 0


def apply(*, plan: scheduling.Plan, loaded: Loaded, now: datetime) -> Applied:
    """Carry the plan out, in its order."""
    done = Applied()
    versions = dict(loaded.versions)
    for start in plan.starts:
        if _start_apply(start, loaded, versions, now):
            done.started += 1
        else:
            done.skipped += 1
    done.reasons = waits_write(waits=[*_waits(plan, loaded), *_held_back(loaded)], now=now)
    return done


def _start_apply(start: scheduling.Start, loaded: Loaded, versions: dict[str, int], now: datetime) -> bool:
    """One start; ``versions`` are the nodes' placement versions as we know them, raised by what we place."""
    names = sorted({placement.node for placement in start.placements}, key=loaded.nodes.__getitem__)
    try:
        with transaction.atomic():
            failpoint("apply.begin")
            job_hold(loaded.jobs[start.job.id])
            for name in names:
                _node_claim(name, versions[name])
            failpoint("apply.nodes")
            job = Job.objects.select_related("user").get(pk=loaded.jobs[start.job.id])
            attempt_start(job=job, placed=[_placed(start, one, loaded) for one in start.placements], now=now)
            failpoint("apply.rows")
    except (Overtaken, IntegrityError, OperationalError) as error:
        # Overtaken by another scheduler or a report, also where the database says so (a deadlock, a busy file).
        log.info("start of job %s skipped, decided again: %r", start.job.id, error)
        return False
    except NoPortLeft as error:
        log.warning("start of job %s skipped: %s", start.job.id, error)
        return False
    failpoint("apply.committed")
    for name in names:
        versions[name] += 1
    return True


def _node_claim(name: str, version: int) -> None:
    """Raises Overtaken unless the node is open, well, and nothing was placed on it since the plan's read."""
    updated = Node.objects.filter(
        name=name, placement_version=version, intent=NodeIntent.OPEN, health=NodeHealth.HEALTHY
    ).update(placement_version=version + 1)
    if not updated:
        raise Overtaken


def _placed(start: scheduling.Start, placement: scheduling.TaskPlacement, loaded: Loaded) -> Placed:
    return Placed(
        task_id=loaded.tasks[(start.job.id, placement.role, placement.index)],
        role=placement.role,
        index=placement.index,
        node_id=loaded.nodes[placement.node],
        cpu_milli=placement.cpu_milli,
        memory_mb=placement.memory_mb,
        leaves=tuple(
            Leaf(loaded.leaves[use.leaf], use.virtual_cell or "", str(use.standing)) for use in placement.leaves
        ),
    )


def _waits(plan: scheduling.Plan, loaded: Loaded) -> list[Waiting]:
    return [
        Waiting(
            job_id=loaded.jobs[wait.job.id],
            code=str(wait.reason.code),
            message=_sentence(wait, loaded),
            numbers={**wait.reason.numbers, **({"place": wait.place} if wait.place else {})},
        )
        for wait in plan.waits
    ]


def _sentence(wait: scheduling.Wait, loaded: Loaded) -> str:
    # The engine knows jobs by number; people know them by name.
    named = loaded.waits_for.get(loaded.jobs[wait.job.id])
    return named if named and wait.reason.code is scheduling.Code.DEPENDENCY else wait.reason.sentence


def _held_back(loaded: Loaded) -> list[Waiting]:
    return [Waiting(job_id=job_id, code=held.code, message=held.message) for job_id, held in loaded.held_back.items()]

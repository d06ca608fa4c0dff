"""What a plan changes, in the end, of the rights by which running jobs hold their GPUs.

A quota that becomes smaller loses the cells with the highest numbers, whoever is in them. The plan then names their
jobs twice: they fall out of their cells, and, where others of the quota are free, move into those at once. Such a job
keeps its right: its cells have other names, and nobody needs to hear of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import scheduling
from scheduling import Running, RunningTask, Standing, TaskPlacement, TaskRef


@dataclass(frozen=True, slots=True)
class Turn:
    """Of one job: the tasks that are on loan from now on, those inside the quota that have other cells of it, and those
    that were on loan and are inside the quota from now on."""

    lost: tuple[TaskRef, ...] = ()
    moved: tuple[TaskPlacement, ...] = ()
    gained: tuple[TaskPlacement, ...] = ()


def turns(plan: scheduling.Plan, running: Mapping[str, Running]) -> dict[str, Turn]:
    """By the engine's id of the job; ``running`` as they were when the plan was made."""
    placed: dict[str, list[TaskPlacement]] = {}
    for promotion in plan.promotions:
        placed.setdefault(promotion.job, []).extend(promotion.placements)
    fallen = {one.job for one in plan.demotions}
    return {job: _turn(running[job], placed.get(job, ()), job in fallen) for job in sorted({*placed, *fallen})}


def _turn(running: Running, placed: list[TaskPlacement] | tuple[()], fallen: bool) -> Turn:
    had = {task.placement.task for task in running.tasks if fallen and _by_right(task)}
    new = {placement.task for placement in placed}
    return Turn(
        lost=tuple(sorted(had - new)),
        moved=tuple(one for one in placed if one.task in had),
        gained=tuple(one for one in placed if one.task not in had),
    )


def _by_right(task: RunningTask) -> bool:
    return any(use.standing is Standing.GUARANTEED for use in task.placement.leaves)

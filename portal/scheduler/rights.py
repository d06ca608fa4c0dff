"""Net change of a plan in how running jobs hold their GPUs, guaranteed or on loan.

A quota that shrinks loses the cells with the highest numbers, whoever is in them. The plan then names their jobs twice:
as demoted from their cells and, if others of the quota are free, as promoted into those at once. Such a job keeps its
guarantee: only its cells are renamed, and nobody needs to hear of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import scheduling
from scheduling import Running, RunningTask, Standing, TaskPlacement, TaskRef


@dataclass(frozen=True, slots=True)
class Turn:
    """One job's tasks that are on loan from now on, those in the quota that get other cells of it, and those that move
    from loan into the quota."""

    lost: tuple[TaskRef, ...] = ()
    moved: tuple[TaskPlacement, ...] = ()
    gained: tuple[TaskPlacement, ...] = ()


def turns(plan: scheduling.Plan, running: Mapping[str, Running]) -> dict[str, Turn]:
    """Turns by engine job id; ``running`` as it was when the plan was made."""
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

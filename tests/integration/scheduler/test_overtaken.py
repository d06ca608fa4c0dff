"""Decisions that are carried out twice, late, or by a process that dies in between: exact on every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from portal.accounts.models import User
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth, NodeIntent
from portal.jobs.models import Allocation, Claim, Demotion, Job, JobEvent, Preemption, TaskAttempt
from portal.jobs.services.move_to_vc import job_change_vc
from portal.scheduler.apply import Applied
from portal.scheduler.snapshot import Loaded
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set
from scheduling import Demotion as Demote
from scheduling import Promotion
from tests.integration.scheduler.plans import (
    PROD,
    carry_out,
    obey,
    placements,
    preempt,
    read,
    running,
    start,
    submitted,
)
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
Parts = dict[str, Any]
Case = tuple[Loaded, list[Parts]]
PLACES = {0: "gpu01/0", 1: "gpu02/0"}


class Died(BaseException):
    """Stands for the end of the process."""


@contextmanager
def dying_at(number: int) -> Iterator[list[int]]:
    """The statement of this number (from 1) is not carried out, nor any after it; gives the count of those before."""
    passed = [0]

    def before(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        # The end of a transaction is the database's own when its client is gone.
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            passed[0] += 1
            if passed[0] == number:
                raise Died
        return execute(sql, params, many, context)

    with connection.execute_wrapper(before):
        yield passed


@contextmanager
def undone() -> Iterator[None]:
    """What is done here is undone in the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def state() -> dict[str, Any]:
    """Everything that the decisions of this file change, in a form that can be compared."""
    return {
        "jobs": list(Job.objects.order_by("pk").values_list("name", "state", "waiting_code")),
        "tasks": list(
            TaskAttempt.objects.order_by("task", "number").values_list("task", "number", "phase", "stop_reason")
        ),
        "held": list(
            Allocation.objects.filter(released_at=None).order_by("leaf").values_list("leaf", "standing", "virtual_cell")
        ),
        "claims": list(Claim.objects.order_by("leaf").values_list("leaf", "claimant", "victim", "virtual_cell")),
        "demotions": list(Demotion.objects.values_list("job", "cause")),
        "preemptions": Preemption.objects.count(),
        "events": sorted(JobEvent.objects.values_list("job", "code")),
    }


# Each gives what was read and a plan's parts made from it, in the order in which they are carried out.


def starting(world: World, teams: Teams) -> Case:
    job = submitted(world, teams["alice"], PLACES)
    loaded = read()
    return loaded, [{"starts": [start(loaded, job, PLACES)]}]


def preempting(world: World, teams: Teams) -> Case:
    low = running(world, teams["carol"], PLACES, borrowed=True, name="low")
    other = running(world, teams["alice"], {0: "gpu01/1"}, name="other", gang=False)
    places = {**PLACES, 2: "gpu01/1"}
    world.vc.quota.update(count=4)
    high = submitted(world, teams["bob"], places, name="high", extras=PROD)
    loaded = read()
    return loaded, [{"preemptions": [preempt(loaded, high, places, {low: (0, 1), other: (0,)})]}]


def starting_at_claims(world: World, teams: Teams) -> Case:
    loaded, (parts,) = preempting(world, teams)
    carry_out(loaded, **parts)
    obey(world)
    high = Job.objects.get(name="high")
    loaded = read()
    return loaded, [{"starts": [start(loaded, high, {**PLACES, 2: "gpu01/1"})]}]


def promoting(world: World, teams: Teams) -> Case:
    job = running(world, teams["alice"], PLACES, borrowed=True)
    return read(), [{"promotions": [Promotion(str(job.pk), placements(job, PLACES))]}]


def demoting(world: World, teams: Teams) -> Case:
    job = running(world, teams["alice"], PLACES)
    return read(), [{"demotions": [Demote(str(job.pk), "the quota of vision was made smaller")]}]


def everything(world: World, teams: Teams) -> Case:
    """A job loses its right, one is preempted, one starts, another gets the right."""
    down = running(world, teams["alice"], {0: "gpu01/0"}, name="down")
    up = running(world, teams["bob"], {0: "gpu01/1"}, borrowed=True, name="up")
    low = running(world, teams["carol"], {0: "gpu02/0"}, borrowed=True, name="low")
    high = submitted(world, teams["bob"], {0: "gpu02/0"}, name="high", extras=PROD)
    new = submitted(world, teams["carol"], {0: "gpu02/1"}, name="new")
    loaded = read()
    return loaded, [
        {"demotions": [Demote(str(down.pk), str(up.pk))]},
        {"preemptions": [preempt(loaded, high, {0: "gpu02/0"}, {low: (0,)})]},
        {"starts": [start(loaded, new, {0: "gpu02/1"})]},
        {"promotions": [Promotion(str(up.pk), placements(up, {0: "gpu01/1"}))]},
    ]


def starting_in_the_place_of_another(world: World, teams: Teams) -> Case:
    """A job that allows it is borrowed from then on, and its virtual cells are the new one's."""
    lazy = running(world, teams["alice"], {0: "gpu01/0"}, name="lazy")
    high = submitted(world, teams["bob"], {0: "gpu01/1"}, name="high", extras=PROD)
    loaded = read()
    (place,) = placements(high, {0: "gpu01/1"})
    taken = place._replace(leaves=(place.leaves[0]._replace(virtual_cell="vision/gpu01/0"),))
    answer = start(loaded, high, {0: "gpu01/1"})._replace(placements=(taken,), demotes=(str(lazy.pk),))
    return loaded, [{"starts": [answer]}]


CASES = [
    starting, preempting, starting_at_claims, starting_in_the_place_of_another, promoting, demoting, everything,
]  # fmt: skip


def plan_of(parts: list[Parts]) -> Parts:
    return {name: part for one in parts for name, part in one.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_that_two_schedulers_carry_out_is_carried_out_once(
    world: World, teams: Teams, case: Callable[[World, Teams], Case]
) -> None:
    loaded, parts = case(world, teams)
    first = carry_out(loaded, **plan_of(parts))
    assert first.skipped == 0
    after = state()
    second = carry_out(loaded, **plan_of(parts))
    assert second == Applied(skipped=len(parts))
    assert state() == after


@pytest.mark.parametrize("case", CASES)
def test_a_scheduler_that_dies_at_any_statement_leaves_each_decision_whole_or_undone(
    world: World, teams: Teams, case: Callable[[World, Teams], Case]
) -> None:
    """Of several decisions not at each statement: each of them has a case of its own."""
    loaded, parts = case(world, teams)
    whole = [state()]
    for number in range(1, len(parts) + 1):
        with undone():
            carry_out(loaded, **plan_of(parts[:number]))
            whole.append(state())
    for number in range(1, 500, len(parts)):
        with undone():
            with dying_at(number) as passed, suppress(Died):
                carry_out(loaded, **plan_of(parts))
            assert state() in whole, f"something half done at statement {number}"
        if passed[0] < number:
            break
    assert passed[0] < number
    assert number > 5 * len(parts), "a decision has more statements than that"


@pytest.mark.parametrize("change", ["is cordoned", "is lost", "got another task"])
def test_a_node_that_has_changed_since_takes_no_claim_and_nobody_is_told_to_end(
    world: World, teams: Teams, change: str
) -> None:
    loaded, (parts,) = preempting(world, teams)
    before = state()
    node = Node.objects.filter(name="gpu01")
    if change == "is cordoned":
        node.update(intent=NodeIntent.CORDONED)
    elif change == "is lost":
        node.update(health=NodeHealth.LOST)
    else:
        node.update(placement_version=F("placement_version") + 1)
    assert carry_out(loaded, **parts).skipped == 1
    assert state() == before


@pytest.mark.parametrize("changed", ["high", "low"])
def test_who_has_another_priority_since_neither_preempts_nor_is_preempted(
    world: World, teams: Teams, changed: str
) -> None:
    loaded, (parts,) = preempting(world, teams)
    Job.objects.filter(name=changed).update(priority=F("priority") + 1)
    before = state()
    assert carry_out(loaded, **parts).skipped == 1
    assert state() == before


@pytest.mark.parametrize("decision", ["start", "preemption"])
def test_who_was_moved_to_another_team_since_gets_nothing_in_the_old_teams_cells(
    world: World, teams: Teams, decision: str
) -> None:
    member_set(vc=VirtualCluster.objects.get(name="language"), user=world.user, role="member", now=world.now)
    low = running(world, teams["carol"], {0: "gpu01/0"}, borrowed=True, name="low")
    job = submitted(world, world.user, {0: "gpu02/0" if decision == "start" else "gpu01/0"}, name="moved")
    loaded = read()
    parts: Parts = {"starts": [start(loaded, job, {0: "gpu02/0"})]}
    if decision == "preemption":
        parts = {"preemptions": [preempt(loaded, job, {0: "gpu01/0"}, {low: (0,)})]}
    job_change_vc(job=Job.objects.get(pk=job.pk), vc="language", actor="alice", now=timezone.now())
    before = state()
    assert carry_out(loaded, **parts) == Applied(skipped=1)
    assert state() == before
    if decision == "start":
        assert world.cycle().applied.started == 1
        held = Allocation.objects.get(task_attempt__task__job=job, released_at=None)
        assert held.virtual_cell.startswith("language/")


def test_a_victim_that_came_into_its_right_since_is_not_preempted(world: World, teams: Teams) -> None:
    low = running(world, teams["carol"], PLACES, borrowed=True, name="low")
    high = submitted(world, teams["bob"], PLACES, name="high")
    loaded = read()
    assert carry_out(read(), promotions=[Promotion(str(low.pk), placements(low, PLACES))]).promoted == 1
    assert carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})]).skipped == 1
    assert not Claim.objects.exists()


def test_a_virtual_cell_that_somebody_still_holds_is_given_to_nobody(world: World, teams: Teams) -> None:
    first = running(world, teams["alice"], {0: "gpu01/0"}, name="first")
    second = running(world, teams["bob"], {0: "gpu01/1"}, borrowed=True, name="second")
    (place,) = placements(second, {0: "gpu01/1"})
    taken = place._replace(leaves=(place.leaves[0]._replace(virtual_cell="vision/gpu01/0"),))
    loaded = read()
    assert carry_out(loaded, promotions=[Promotion(str(second.pk), (taken,))]).skipped == 1
    done = carry_out(
        loaded, demotions=[Demote(str(first.pk), "a change")], promotions=[Promotion(str(second.pk), (taken,))]
    )
    assert (done.demoted, done.promoted) == (1, 1), "in this order the cell is free"

"""A container that outlives SIGKILL holds its GPUs until it is gone, and nothing else: not its team's quota, and not a
server that is gone for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Job, Standing, TaskAttempt, Usage
from portal.jobs.services.stop import job_stop
from portal.jobs.states import JobState
from portal.scheduler.reconcile import jobs_reconcile
from tests.support.people.cast import Api, person

if TYPE_CHECKING:
    from tests.support.cluster.scripted_node import ScriptedNode
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db
Teams = dict[str, User]


def stopped_in_vain(world: World, job: Job) -> ScriptedNode:
    """The job is stopped, and its only container does not end. Its node."""
    job_stop(job=job, actor=job.user, now=timezone.now())
    node = world.nodes[TaskAttempt.objects.get(task__job=job).node.name]
    for order in node.desired().orders:
        node.end(order, Exit(cause=Cause.UNKILLABLE))
    assert node.report()
    job.refresh_from_db()
    assert job.state == JobState.STOPPED
    return node


def stuck_job(world: World, gpu: int = 1) -> tuple[Job, ScriptedNode]:
    job = world.submit(name="stuck", gpu=gpu)
    world.settle()
    return job, stopped_in_vain(world, job)


def test_the_next_job_of_its_team_starts_in_its_virtual_cell(world: World, teams: Teams) -> None:
    job = world.submit(name="stuck", gpu=1)
    world.settle()
    cell = Allocation.objects.get().virtual_cell
    assert cell
    stopped_in_vain(world, job)
    held = Allocation.objects.get()
    assert (held.released_at, held.virtual_cell, held.standing) == (None, "", Standing.BORROWED)
    second = world.submit(name="next", gpu=2)
    assert world.cycle().applied.started == 1
    cells = Allocation.objects.filter(task_attempt__task__job=second).values_list("virtual_cell", flat=True)
    assert cell in cells


@pytest.mark.parametrize("gpu", [1, 0])
def test_its_share_is_charged_once_however_late_it_is_gone(world: World, teams: Teams, gpu: int) -> None:
    job, node = stuck_job(world, gpu)
    charged = sorted(Usage.objects.values_list("resource", "hour", "amount"))
    assert charged
    world.settle()
    assert node.containers == {}, "it is gone in the end"
    assert TaskAttempt.objects.get(task__job=job).released_at is not None
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    assert sorted(Usage.objects.values_list("resource", "hour", "amount")) == charged


def test_its_server_can_be_removed_or_set_up_anew_when_that_is_gone_for_good(world: World, teams: Teams) -> None:
    _, node = stuck_job(world)
    api, at = Api(person("root", ClusterRole.ADMIN)), f"nodes/{node.name}"
    assert api.call("POST", f"{at}/key").status_code == 409, "it is there and may yet say more"
    Node.objects.filter(name=node.name).update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    assert api.call("POST", f"{at}/key").status_code == 201
    assert api.call("DELETE", at).status_code == 200
    assert not Allocation.objects.filter(released_at__isnull=True).exists()

"""Nodes whose ports are used up: jobs go elsewhere, are told why they wait, and start when ports come free."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.states import JobState
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World


def narrow(world: World, name: str, ports: int) -> ScriptedNode:
    """A node of four GPUs with so many ports; a task of one-task jobs needs two."""
    node = world.node(name, gpus=4)
    node.inventory = replace(node.inventory, port_first=20000, port_last=20000 + ports - 1)
    node.report()
    return node


def places(job: Job) -> list[str]:
    return [*TaskAttempt.objects.filter(task__job=job).values_list("node__name", flat=True)]


def test_a_job_goes_where_ports_are_free(world: World) -> None:
    narrow(world, "gpu01", 3)
    world.submit(name="first")
    world.settle()
    world.node("gpu02", gpus=4)
    job = world.submit(name="second", gpu=2)
    world.cycle()
    world.cycle()
    assert places(job) == ["gpu02"]


def test_a_job_without_ports_is_told_so_and_starts_when_some_come_free(world: World) -> None:
    node = narrow(world, "gpu01", 3)
    world.submit(name="first")
    world.settle()
    job = world.submit(name="second")
    world.cycle()
    assert world.cycle().applied.skipped == 0, "it is not tried there again at once"
    job.refresh_from_db()
    assert (job.state, job.waiting_code, job.waiting_numbers) == (
        JobState.WAITING, "ports", {"wanted": 2, "nodes": "gpu01"}
    )  # fmt: skip
    assert job.waiting_message == (
        "a task of it needs 2 free ports on its node; too few are free on gpu01 until tasks there end"
    )
    node.finish()
    world.cycle()
    assert places(job) == []
    world.cycle(now=timezone.now() + timedelta(minutes=2))
    assert places(job) == ["gpu01"]


def test_what_stands_before_the_ports_is_told_instead(world: World) -> None:
    narrow(world, "gpu01", 3)
    world.submit(name="first")
    world.settle()
    job = world.submit(name="second")
    world.cycle()
    Job.objects.filter(pk=job.pk).update(paused=True)
    world.cycle()
    job.refresh_from_db()
    assert job.waiting_code == "paused"


@pytest.mark.parametrize(("asked", "fits"), [(58, True), (59, False)])
def test_a_task_that_wants_more_ports_than_any_node_has_is_refused(world: World, asked: int, fits: bool) -> None:
    narrow(world, "gpu01", 10)
    narrow(world, "gpu02", 60)
    shape = {"cpu": 1, "memoryMB": 1024, "gpu": 1, "ports": {"rpc": asked}}
    if fits:
        world.submit(role={"resourcePerInstance": shape})
        return
    with pytest.raises(SpecInvalid) as refused:
        world.submit(role={"resourcePerInstance": shape})
    (problem,) = refused.value.problems
    assert (problem.path, problem.message) == (
        "taskRoles.worker.resourcePerInstance.ports",
        "asks for 61 ports per task, its own among them; no node has more than 60",
    )

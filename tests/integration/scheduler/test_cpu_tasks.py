"""Tasks without GPUs come only to servers that were opened for them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.envelope import NodeKey
from portal.accounts.models import AuditEntry, ClusterRole, User
from portal.cluster.services.configuration import configuration_export, configuration_import, configuration_read
from portal.common.errors import Invalid
from portal.hardware.services.nodes import node_add
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job, TaskAttempt
from portal.joining.models import JoinToken
from portal.joining.services.acceptance import node_set_cpu_tasks
from portal.joining.services.join_tokens import join_token_create, node_join
from portal.scheduler.apply import apply
from portal.scheduler.ports import PortShortages
from scheduling import Engine
from tests.integration.scheduler.plans import read
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

CPU_ONLY = {"resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0}}


@pytest.fixture
def root() -> User:
    return person("root", ClusterRole.ADMIN)


def joined(world: World, name: str = "gpu01", **shape: Any) -> ScriptedNode:
    """A server that waits to be accepted."""
    node = world.nodes[name] = ScriptedNode(name, accept=False, **shape)
    assert node.report()
    return node


def state(job: Job) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk)


def shut(node: ScriptedNode, cpu_tasks: bool = False) -> None:
    node_set_cpu_tasks(node=node.row, cpu_tasks=cpu_tasks, actor="root", now=timezone.now())


def accepted(world: World, root: User, body: dict[str, Any]) -> bool:
    """Whether tasks without GPUs may run on a server that was accepted so."""
    node = joined(world)
    answer = Api(root).call("POST", "nodes/gpu01/accept", body)
    assert answer.json()["cpu_tasks"] is node.row.cpu_tasks
    node.report()
    return bool(node.row.cpu_tasks)


def test_who_accepts_a_server_says_whether_they_may_run_there_and_they_may_unless_it_is_said(
    world: World, root: User
) -> None:
    assert accepted(world, root, {})
    entry = AuditEntry.objects.get(action="node.accept")
    assert entry.target == "gpu01"
    assert entry.after is not None
    assert entry.after["cpu_tasks"] is True


def test_on_a_server_that_was_accepted_for_gpus_alone_only_tasks_with_gpus_run(world: World, root: User) -> None:
    assert not accepted(world, root, {"cpu_tasks": False})
    other = world.node("gpu02", gpus=0)
    jobs = [world.submit(role=CPU_ONLY), world.submit()]
    world.settle()
    assert [state(job) for job in jobs] == ["running"] * 2
    assert dict(TaskAttempt.objects.values_list("task__job", "node__name")) == {
        jobs[0].pk: other.name,
        jobs[1].pk: "gpu01",
    }


def test_the_page_asks_it_ticked_and_what_is_unticked_is_shut(world: World, root: User) -> None:
    node, browser = joined(world), Browser(root)
    page = browser.get("/cluster/nodes/gpu01")
    assert "Those of every virtual cluster, with their secrets" in page.text
    assert [box for tag, box in page.tags if box.get("name") == "cpu_tasks" and "checked" in box]
    shown = next(box["value"] for tag, box in page.tags if box.get("name") == "claims")
    browser.send("/cluster/nodes/gpu01/accept", "/cluster/nodes/gpu01", claims=shown)
    assert (node.row.pending, node.row.cpu_tasks) == (False, False)
    page = browser.send("/cluster/nodes/gpu01/cpu-tasks", "/cluster/nodes/gpu01", cpu_tasks="yes")
    assert "Tasks without GPUs may be placed on gpu01." in page.text
    assert node.row.cpu_tasks


def test_what_a_configuration_says_of_a_server_that_waits_stands_unless_its_acceptance_says_otherwise(
    world: World, root: User
) -> None:
    node = joined(world, gpus=0)
    before = configuration_export()
    said = deepcopy(before)
    said["physicalCluster"]["cpuNodes"] = [{"cellAddress": "gpu01", "cpuTasks": False}]
    configuration_import(found=configuration_read(said), now=timezone.now(), actor="root")
    assert (before["physicalCluster"].get("cpuNodes"), configuration_export()) == (None, said)
    page = Browser(root).get("/cluster/nodes/gpu01")
    assert ["checked" in box for tag, box in page.tags if box.get("name") == "cpu_tasks"] == [False]
    assert not Api(root).call("POST", "nodes/gpu01/accept", {}).json()["cpu_tasks"]
    node.report()
    assert (node.row.pending, node.row.cpu_tasks) == (False, False)


def test_tasks_that_run_on_a_server_when_it_is_shut_go_on_and_no_other_comes(world: World, root: User) -> None:
    node = world.node("gpu01")
    before = world.submit(role=CPU_ONLY)
    world.settle()
    after = world.submit(role=CPU_ONLY)
    shut(node)
    world.settle()
    after.refresh_from_db()
    assert (state(before), after.state) == ("running", "waiting")
    assert after.waiting_message == (
        "it has tasks without GPUs, and the only server that they could run on takes only tasks with GPUs"
    )
    assert "1 that runs here goes on." in Browser(root).get("/cluster/nodes/gpu01").text
    shut(node, cpu_tasks=True)
    world.settle()
    assert state(after) == "running"
    assert AuditEntry.objects.filter(action="node.cpu_tasks", target="gpu01").count() == 2


def test_a_start_that_was_planned_before_the_server_was_shut_is_not_carried_out(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(role=CPU_ONLY)
    loaded = read()
    plan = Engine.restore(loaded.snapshot).plan(0)
    assert [start.job.id for start in plan.starts]
    shut(node)
    applied = apply(plan=plan, loaded=loaded, ports=PortShortages(), now=timezone.now())
    assert (applied.started, state(job)) == (0, "waiting")


def test_where_no_server_takes_them_they_are_refused_with_the_place_in_the_file(world: World) -> None:
    shut(world.node("gpu01"))
    with pytest.raises(SpecInvalid) as refused:
        world.submit(role=CPU_ONLY)
    (problem,) = refused.value.problems
    assert problem.path == "taskRoles.worker.resourcePerInstance.gpu"
    assert problem.message == "asks for no GPUs; no server of this cluster takes tasks without GPUs"


@pytest.mark.parametrize("cpu_tasks", [False, True], ids=["", "cpu_tasks"])
def test_who_is_accepted_at_once_by_a_token_gets_them_only_where_the_token_says_so(
    world: World, cpu_tasks: bool
) -> None:
    now, key = timezone.now(), NodeKey.generate()
    made = join_token_create(uses=1, hours=1, labels="", accept=True, cpu_tasks=cpu_tasks, actor="root", now=now)
    node_join(token=made.secret, name="gpu07", public_key=key.public, address="127.0.0.1", now=now)
    node = ScriptedNode("gpu07", key=key.secret, accept=False)
    node.report()
    assert (node.row.pending, node.row.cpu_tasks) == (False, cpu_tasks)


def test_a_token_that_accepts_nobody_cannot_say_so(world: World) -> None:
    with pytest.raises(Invalid) as refused:
        join_token_create(uses=1, hours=1, labels="", cpu_tasks=True, actor="root", now=timezone.now())
    assert [fault.path for fault in refused.value.faults] == ["cpu_tasks"]
    assert not JoinToken.objects.exists()
    with pytest.raises(Invalid):
        node_add(name="gpu08", public_key=NodeKey.generate().public, cpu_tasks=True, now=timezone.now())


def test_of_a_server_that_waits_it_is_said_by_accepting_it(world: World, root: User) -> None:
    node = joined(world)
    answer = Api(root).call("PUT", "nodes/gpu01/cpu-tasks", {"cpu_tasks": False})
    assert (answer.status_code, node.row.cpu_tasks) == (409, True)


def test_confirming_more_of_what_it_claims_opens_nothing(world: World, root: User) -> None:
    node = world.node("gpu01")
    shut(node)
    node.inventory = ScriptedNode("other", cpus=64).inventory
    node.report()
    node.accept()
    assert (node.row.cpu_milli, node.row.cpu_tasks) == (64_000, False)

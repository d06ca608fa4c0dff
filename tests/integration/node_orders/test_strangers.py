"""A node that knows more than the portal: of lists that it never made, of containers that it never had started."""

from dataclasses import replace

import pytest
from django.utils import timezone

from nodes.protocol.messages import ContainerReport
from nodes.protocol.states import ContainerState, Phase
from portal.accounts.models import ClusterRole
from portal.common.errors import NotFound
from portal.data_folder.backups import restore_note
from portal.hardware.models import Gpu, NodeEvent
from portal.jobs.models import TaskAttempt
from portal.jobs.services.attempts import attempt_end
from portal.jobs.states import EndReason
from portal.node_orders.services.unknown_containers import stranger_stop
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.people.pages import Browser

ATTEMPT = "5c2d2f6e-0d7c-4a54-9a0f-0f3c9f3c7a11"


def unknown(node: ScriptedNode) -> ContainerReport:
    return ContainerReport(
        attempt=ATTEMPT, state=ContainerState.RUNNING, spec_hash="x", generation=1, gpus=(f"GPU-{node.name}-0",),
        folder="/mnt/jobs/carol/train-7",
    )  # fmt: skip


def faults(node: ScriptedNode) -> list[str]:
    return list(Gpu.objects.filter(node__name=node.name).order_by("index").values_list("fault", flat=True))


def test_lists_go_on_from_the_last_one_that_the_node_has_seen(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    before = node.row.generation
    assert node.report()
    assert node.row.generation == before
    node.generation = before + 500  # of a portal whose backup this one was restored from
    assert node.report()
    job = world.submit(gpu=1)
    world.settle()
    assert node.desired().generation > before + 500
    job.refresh_from_db()
    assert job.state == "running"
    node.generation = 1 << 80
    assert node.report()
    assert node.row.generation == 1 << 62


def test_an_unknown_container_fences_its_gpus_until_an_administrator_has_it_stopped(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    node.containers[ATTEMPT] = unknown(node)
    node.report()
    node.report()
    assert [bool(fault) for fault in faults(node)] == [True, False]
    assert ATTEMPT in faults(node)[0]
    assert [order.attempt for order in node.desired().orders] == []
    told = NodeEvent.objects.filter(code="container_unknown")
    assert [event.data["attempt"] for event in told] == [ATTEMPT]

    for _ in range(2):
        stranger_stop(node=node.row, attempt=ATTEMPT, reason="after the restore", actor="root", now=timezone.now())
    (order,) = node.desired().orders
    assert (order.attempt, order.phase) == (ATTEMPT, Phase.REMOVE)
    assert order.stop
    assert order.stop.message == "stopped by root: after the restore"
    node.report()
    assert node.row.strangers[ATTEMPT]["stopped_by"] == "root"

    node.obey()
    assert faults(node) == ["", ""]
    assert (node.row.strangers, node.desired().orders) == ({}, ())
    assert NodeEvent.objects.filter(code="container_unknown_gone").count() == 1


def test_a_gpu_that_turned_sick_under_an_unknown_container_stays_fenced_off_at_its_end(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    node.containers[ATTEMPT] = unknown(node)
    node.report()
    (well,) = node.inventory.gpus
    node.inventory = replace(node.inventory, gpus=(replace(well, healthy=False, fault="Xid 48"),))
    node.report()
    assert ATTEMPT in faults(node)[0]
    del node.containers[ATTEMPT]
    node.report()
    assert faults(node) == ["the node says: Xid 48"]


def test_what_the_node_does_not_report_cannot_be_stopped(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    before = node.row.generation
    with pytest.raises(NotFound, match=f"^There is no unknown container {ATTEMPT} that you may see.$"):
        stranger_stop(node=node.row, attempt=ATTEMPT, reason="", actor="root", now=timezone.now())
    assert node.row.generation == before


def test_what_is_known_to_have_begun_is_not_ordered_as_if_it_had_not(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    world.submit(gpu=1)
    world.cycle()
    assert [order.begun for order in node.desired().orders] == [False]
    world.settle()
    assert [order.begun for order in node.desired().orders] == [True]


def test_a_job_of_before_a_restore_waits_once_for_what_may_still_write_its_folder(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gpu=1)
    restore_note(made_at=timezone.now(), now=timezone.now())
    later = world.submit(gpu=1)
    world.settle()
    row = TaskAttempt.objects.get(task__job=job)
    assert row.waits_for == "what was started of it since the backup"
    attempt_end(attempt=row.job_attempt, reason=EndReason.DRAINED, message="", now=timezone.now())
    for _ in range(3):
        world.settle()
        node.finish()
    world.settle()
    told = TaskAttempt.objects.order_by("task__job", "number").values_list("task__job", "number", "waits_for")
    assert list(told) == [(job.pk, 1, row.waits_for), (job.pk, 2, ""), (later.pk, 1, "")]


def test_who_may_not_stop_it_reads_of_it_and_an_administrator_says_why(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    node.containers[ATTEMPT] = unknown(node)
    node.report()
    page, stop = "/cluster/nodes/gpu01", f"/cluster/nodes/gpu01/unknown/{ATTEMPT}/stop"
    read = Browser(world.user).get(page).text
    assert ATTEMPT in read
    assert "/mnt/jobs/carol/train-7" in read
    assert stop not in Browser(world.user).get(page).html
    assert Browser(world.user).send(stop, form=page, reason="mine").status == 403

    root = Browser(person("root", role=ClusterRole.ADMIN))
    assert stop in root.get(page).html
    assert "at most 500 characters" in root.send(stop, form=page, reason="x" * 501).text
    assert "stopped_by" not in node.row.strangers[ATTEMPT]
    root.send(stop, form=page, reason="after the restore")
    assert NodeEvent.objects.get(code="container_unknown_stop").message.endswith("is stopped: after the restore")
    shown = root.get(page)
    assert "is being stopped by root" in shown.text
    assert stop not in shown.html

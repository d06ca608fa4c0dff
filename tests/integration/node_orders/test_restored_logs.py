"""Logs after a restore: what the backup knows of them is old, and their nodes say again how they ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import TaskAttempt
from portal.logs.ending import log_archived, log_lost_with
from portal.node_orders.services.restored import logs_told_anew
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World


@pytest.fixture
def node(world: World) -> ScriptedNode:
    """One on which a task has ended; of the 5,000 bytes of its log 3,000 were archived when the backup was made."""
    node = world.node("gpu01", gpus=1)
    world.submit()
    world.settle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.EXITED, code=0))
    node.containers[order.attempt] = replace(node.containers[order.attempt], log_end=5000)
    node.report()
    TaskAttempt.objects.update(archived_to=3000)
    assert (row().log_complete, row().log_end) == (True, 5000)
    return node


def row() -> TaskAttempt:
    return TaskAttempt.objects.select_related("node").get()


def test_a_container_stays_until_the_rest_of_its_log_is_archived(world: World, node: ScriptedNode) -> None:
    logs_told_anew()
    world.cycle()
    node.report()
    world.cycle()
    (order,) = node.desired().orders
    assert (order.phase, row().log_end, log_archived(row())) == (Phase.RUN, 5000, False)
    TaskAttempt.objects.update(archived_to=5000)
    world.settle()
    assert row().removed_at is not None


def test_one_that_was_removed_meanwhile_is_not_waited_for(world: World, node: ScriptedNode) -> None:
    logs_told_anew()
    (order,) = node.desired().orders
    # What a node says of a container that is gone: that no more of its log comes, and not how long that was.
    node.containers[order.attempt] = replace(node.containers[order.attempt], log_end=0)
    node.report()
    world.settle()
    assert (row().removed_at is None, log_archived(row())) == (False, True)


def test_of_a_server_that_does_not_come_back_the_rest_is_lost(world: World, node: ScriptedNode) -> None:
    logs_told_anew()
    Node.objects.update(health=NodeHealth.LOST)
    world.cycle()
    assert log_lost_with(row()) == "gpu01"


@pytest.mark.parametrize("because", ["its removal was ordered", "its server was removed"])
def test_a_log_of_which_nothing_more_is_said_stays_as_it_was(world: World, node: ScriptedNode, because: str) -> None:
    TaskAttempt.objects.update(archived_to=5000)
    if because == "its removal was ordered":
        world.cycle()
        assert row().phase == Phase.REMOVE
    else:
        Node.objects.update(removed_at=timezone.now() - timedelta(days=1))
    logs_told_anew()
    assert log_archived(row())
    assert log_lost_with(row()) == ""

"""A node at whose start tasks of several users fail takes nothing new until it is put back, or a trial succeeds."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from threading import Thread

import pytest
from django.db import connection, transaction
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase
from portal.accounts.models import ClusterRole, User
from portal.common.errors import Conflict
from portal.hardware.models import Node, NodeEvent
from portal.hardware.services.outages import node_start_failed
from portal.jobs.models import TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import job_submit
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person
from tests.support.run.waiting import wait_until

USERS = ("bob", "carol", "dora")


@pytest.fixture
def people(world: World) -> dict[str, User]:
    world.node("gpu01", gpus=4)
    made = {name: person(name) for name in USERS}
    for user in made.values():
        member_set(vc=world.vc, user=user, role="member", now=world.now)
    return made


@pytest.fixture
def admin(db: None) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def fail_one(world: World, user: User, cause: Cause = Cause.DEVICE_FAULT) -> None:
    """A job of the user's is placed, and cannot be started for the node's fault; then its user gives it up, so that it
    does not come again in the midst of what follows."""
    job = job_submit(user=user, text=job_file(name=f"train{NodeEvent.objects.count()}"), now=timezone.now())
    world.cycle()
    node = world.nodes["gpu01"]
    for order in node.desired().orders:
        if order.phase in {Phase.PREPARE, Phase.RUN}:
            node.end(order, Exit(cause=cause, message="no such device"))
    node.report()
    with suppress(Conflict):  # over already, where it was the job's fault
        job_stop(job=job, actor=user, now=timezone.now())


def row() -> Node:
    return Node.objects.get(name="gpu01")


def placed() -> int:
    return TaskAttempt.objects.count()


def alerts(admin: Api) -> dict[str, dict[str, str]]:
    return {one["code"]: one for one in admin.get("alerts") if one["kind"] == "node"}


def put_out(world: World, people: dict[str, User]) -> None:
    for user in people.values():
        fail_one(world, user)
    assert row().out_since


def test_it_drops_out_after_three_users_and_comes_back_by_hand(
    world: World, people: dict[str, User], admin: Api
) -> None:
    for name in ("bob", "carol"):
        fail_one(world, people[name])
        fail_one(world, people[name])
    assert row().takes_tasks
    assert "node_out" not in alerts(admin)
    fail_one(world, people["dora"])
    assert not row().takes_tasks
    told = alerts(admin)["node_out"]
    assert told["severity"] == "critical"
    assert "could not give them their GPUs" in told["message"]
    assert "nvidia-smi" in told["advice"]
    answer = admin.get("nodes/gpu01")
    assert (answer["intent"], answer["takes_tasks"], "several users" in answer["closed_reason"]) == (
        "open",
        False,
        True,
    )
    before = placed()
    job = world.submit(name="later")
    world.cycle()
    assert placed() == before

    assert admin.call("POST", "nodes/gpu01/put-back", {"reason": "driver installed"}).status_code == 200
    assert row().takes_tasks
    assert "node_out" not in alerts(admin)
    world.settle()
    job.refresh_from_db()
    assert job.state == "running"
    fail_one(world, people["bob"])
    assert row().takes_tasks, "what was before it was put back counts no more"


def test_a_trial_that_fails_puts_it_out_for_twice_as_long_and_one_that_succeeds_acquits_it(
    world: World, people: dict[str, User]
) -> None:
    put_out(world, people)
    first = row()
    assert first.trial_at
    assert first.out_since
    assert first.trial_at - first.out_since == timedelta(seconds=1800)
    world.cycle()
    assert not row().takes_tasks
    TaskAttempt.objects.all().delete()
    Node.objects.update(trial_at=timezone.now())
    world.cycle()
    assert (row().takes_tasks, row().trials) == (True, 1)
    fail_one(world, people["bob"])
    again = row()
    assert again.trial_at
    assert again.out_since
    assert (again.trials, again.trial_at - again.out_since) == (2, timedelta(seconds=3600))

    Node.objects.update(trial_at=timezone.now())
    world.cycle()
    job = world.submit(name="good")
    world.settle()
    world.cycle()
    assert row().trials == 2, "it has to run for a while"
    TaskAttempt.objects.filter(task__job=job).update(started_at=timezone.now() - timedelta(minutes=2))
    world.cycle()
    assert (row().trials, row().trial_at, row().takes_tasks) == (0, None, True)
    codes = NodeEvent.objects.filter(code__in=["out", "trial", "trial_passed"]).order_by("id")
    assert list(codes.values_list("code", flat=True)) == ["out", "trial", "out", "trial", "trial_passed"]


def test_what_is_the_jobs_fault_or_long_ago_or_room_on_the_disk_does_not_count(
    world: World, people: dict[str, User]
) -> None:
    for user in people.values():
        fail_one(world, user, Cause.IMAGE_MISSING)
        fail_one(world, user, Cause.NO_SPACE)
        fail_one(world, user, Cause.STORAGE_MISSING)
    assert row().takes_tasks
    long_ago = timezone.now() - timedelta(hours=1)
    for name in ("bob", "carol"):
        node_start_failed(node=row(), user=name, cause=Cause.DEVICE_FAULT, now=long_ago)
    assert not node_start_failed(node=row(), user="dora", cause=Cause.DEVICE_FAULT, now=timezone.now())
    assert row().takes_tasks


@pytest.mark.django_db(transaction=True)
def test_a_gang_whose_task_could_not_start_takes_its_nodes_in_the_order_of_all_others() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    world = World()
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    world.submit(instances=2)
    world.cycle()
    two.end(two.desired().orders[0], Exit(cause=Cause.DEVICE_FAULT, message="no such device"))

    def report() -> None:
        two.report()
        connection.close()

    reporting = Thread(target=report)
    first, second = Node.objects.order_by("pk")
    assert first.name == "gpu01"
    with transaction.atomic():
        Node.objects.select_for_update(no_key=True).get(pk=first.pk)
        reporting.start()
        wait_until(somebody_waits, "the report to want the first node")
        Node.objects.select_for_update(no_key=True, nowait=True).get(pk=second.pk)
    reporting.join(30)
    assert [order.phase for order in one.desired().orders] == [Phase.STOP]
    assert NodeEvent.objects.filter(node=second, code="start_failed").count() == 1


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        mine = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        cursor.execute(mine)
        return cursor.fetchone() is not None

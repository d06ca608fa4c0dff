"""A node says that its disk is full: nothing new is placed there, everybody concerned is told what is largest, and it
comes back by itself."""

from __future__ import annotations

from dataclasses import replace

from django.test import Client

from nodes.protocol.messages import DiskShare
from portal.accounts.models import ClusterRole
from portal.hardware.models import Node, NodeEvent
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

LARGEST = (
    DiskShare(what="images", mb=40_960),
    DiskShare(what="layer", name="alice/train#1", mb=2048),
    DiskShare(what="logs", name="/var/lib/berth-node/logs", mb=1024),
)


def test_a_full_disk_closes_its_node_until_there_is_room(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    running = world.submit(name="first")
    world.settle()
    well = node.inventory
    node.inventory = replace(well, disk_total_mb=1000, disk_free_mb=30, disk_full=True, largest=LARGEST)
    node.report()
    node.report()
    assert not node.row.takes_tasks
    waiting = world.submit(name="second")
    world.settle()
    for job, state in ((running, "running"), (waiting, "waiting")):
        job.refresh_from_db()
        assert job.state == state

    root = person("root", ClusterRole.ADMIN)
    told = {one["code"]: one for one in Api(root).get("alerts")}
    assert told["disk_low"]["severity"] == "critical"
    assert "takes nothing new" in told["disk_low"]["message"]
    assert "images (40.0 GB), what the container of alice/train#1 wrote" in told["disk_low"]["message"]
    assert "Its disk for containers is full." in told["servers_closed"]["message"]
    assert "is full (3 % free)" in page(root)
    assert "the container of alice/train#1" in page(root)
    assert "the container of alice wrote" in page(person("bob"))

    node.inventory = replace(well, disk_total_mb=1000, disk_free_mb=500)
    node.report()
    world.settle()
    waiting.refresh_from_db()
    assert waiting.state == "running"
    assert Node.objects.get().full_since is None
    codes = NodeEvent.objects.filter(code__startswith="disk").order_by("id").values_list("code", flat=True)
    assert list(codes) == ["disk_full", "disk_room"]


def page(user: object) -> str:
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user)  # type: ignore[arg-type]
    return client.get("/cluster/nodes/gpu01").content.decode()

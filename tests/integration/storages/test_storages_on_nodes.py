"""Nodes are told which storages they shall have, and tell which they offer and why not the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client

from nodes.agent.storage.nosuid import unguarded
from nodes.protocol.messages import StorageWish
from portal.accounts.models import ClusterRole
from portal.common.errors import Invalid, Unavailable
from portal.files.selectors import job_folder
from portal.hardware.models import Node
from portal.jobs.models import TaskAttempt
from portal.storages.models import Storage
from portal.storages.services.storages import storage_change, storage_create
from portal.storages.services.ties import storage_tie
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

ROOT = "/mnt/berth/data"
AWAY = f"{ROOT} does not answer: its file server is away"


@pytest.fixture
def node(db: None) -> ScriptedNode:
    world = World()
    storage_create(
        name="data", kind="nfs", root=ROOT, export="filer:/data", options="vers=4.2", vcs=[world.vc],
        must_be_mount=False, per_user=True, now=world.now, actor="root",
    )  # fmt: skip
    storage_create(name="nobodys", kind="nfs", root="/mnt/berth/x", export="filer:/x", vcs=[], now=world.now, actor="r")
    node = world.node("gpu01", gpus=2)
    storage_tie(storage=Storage.objects.get(name="data"), node=node.row, tied=True, actor="root", now=world.now)
    node.world = world  # type: ignore[attr-defined]
    return node


def tell(node: ScriptedNode, *roots: str, fault: str = "") -> None:
    node.inventory = replace(node.inventory, storages=roots, storage_faults={ROOT: fault} if fault else {})
    node.report()


def page(user: object) -> str:
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user)  # type: ignore[arg-type]
    return client.get("/cluster/nodes/gpu01").content.decode()


def test_a_node_is_told_the_storages_that_some_job_may_use(node: ScriptedNode) -> None:
    wish = StorageWish(name="data", root=ROOT, export="filer:/data", options="vers=4.2", must_be_mount=True)
    assert node.desired().storages == (wish,)
    storage_change(
        storage=Storage.objects.get(name="data"),
        changes={"read_only": True}, virtual_clusters=[], now=node.world.now, actor="root",  # type: ignore[attr-defined]
    )  # fmt: skip
    assert node.desired().storages == ()


def test_what_it_does_not_offer_is_shown_with_the_cause(node: ScriptedNode) -> None:
    root = person("root", ClusterRole.ADMIN)
    api = Api(root)
    tell(node, ROOT)
    assert (api.get("storages/data")["nodes"], api.get("storages/data")["missing"]) == (["gpu01"], [])
    assert AWAY not in page(root)
    tell(node, "/mnt/berth", fault=AWAY)
    assert (api.get("storages/data")["nodes"], api.get("storages/data")["missing"]) == ([], ["gpu01"])
    assert AWAY in page(root)
    assert AWAY not in page(person("stranger")), "who may not use it is not told that it is there"
    told = {one["name"]: one for one in api.get("alerts") if one["code"] == "storage_missing"}
    assert "BERTH_NODE_NFS_SERVERS" in told["data"]["advice"]
    assert Node.objects.get().storage_faults == {ROOT: AWAY}


def test_where_a_setuid_program_counts_is_shown_with_the_cause_to_who_may_see_the_storage(node: ScriptedNode) -> None:
    root = person("root", ClusterRole.ADMIN)
    tell(node, ROOT)
    assert Api(root).get("storages/data")["unguarded"] == []
    why = unguarded(ROOT, "its agent is not root")
    node.inventory = replace(node.inventory, storages_unguarded={ROOT: why})
    node.report()
    assert Api(root).get("storages/data")["unguarded"] == ["gpu01"]
    assert why in page(root)
    assert "setuid" not in page(person("stranger"))
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(root)
    assert "setuid programs of jobs count" in client.get("/storages").content.decode()
    tell(node, ROOT, fault=AWAY)
    assert Api(root).get("storages/data")["unguarded"] == [], "where it is not offered no job writes"


def test_a_mount_of_nfs_is_never_the_empty_folder_below_it(node: ScriptedNode) -> None:
    world: World = node.world  # type: ignore[attr-defined]
    tell(node, ROOT)
    world.submit(extras={"gangAllocation": True, "storages": [{"name": "data", "mountPath": "/data"}]})
    world.cycle()
    (order,) = node.desired().orders
    (mount,) = node.spec(order).mounts
    assert (mount.must_be_mount, mount.create, mount.source) == (True, True, f"{ROOT}/alice")
    assert TaskAttempt.objects.count() == 1


def test_job_folders_on_a_storage_that_is_away_are_waited_for(node: ScriptedNode) -> None:
    world: World = node.world  # type: ignore[attr-defined]
    storage_create(
        name="jobs", kind="nfs", root="/mnt/berth/jobs", export="filer:/jobs", jobs=True, vcs=[], now=world.now,
        actor="root",
    )  # fmt: skip
    node.inventory = replace(node.inventory, storages=(), storage_faults={"/mnt/berth/jobs": "away"})
    node.report()
    job = world.submit(name="one")
    world.cycle()
    job.refresh_from_db()
    assert (node.desired().orders, job.waiting_code) == ((), "storage")
    tell(node, "/mnt/berth/jobs")
    world.cycle()
    assert [mount.storage for mount in node.spec(node.desired().orders[0]).mounts] == ["jobs"]


def test_job_folders_may_lie_below_a_folder_that_a_node_tells(node: ScriptedNode) -> None:
    world: World = node.world  # type: ignore[attr-defined]
    root = "/mnt/share/jobs"
    storage_create(name="jobs", root=root, jobs=True, vcs=[], must_be_mount=False, now=world.now, actor="root")
    admin, job = Api(person("root", ClusterRole.ADMIN)), world.submit()
    tell(node, "/mnt/share")
    assert admin.get("storages/jobs")["nodes"] == [], "nobody has accepted that it has this folder"
    node.accept()
    assert admin.get("storages/jobs")["nodes"] == ["gpu01"]
    assert job_folder(job=job).nodes == [Node.objects.get()]
    node.inventory = replace(node.inventory, storage_faults={root: "away"})
    node.report()
    with pytest.raises(Unavailable, match="where job folders lie"):
        job_folder(job=job)


@pytest.mark.parametrize("root", ["/mnt/share", "/mnt/share/jobs"])
def test_no_job_begins_from_nothing_where_its_folder_lies_in_a_nodes_own_folder_that_is_away(
    node: ScriptedNode, root: str
) -> None:
    world: World = node.world  # type: ignore[attr-defined]
    storage_create(name="jobs", root=root, jobs=True, vcs=[], must_be_mount=False, now=world.now, actor="root")
    tell(node, "/mnt/share")
    node.accept()

    first = world.submit(name="before")
    world.cycle()
    (order,) = node.desired().orders
    assert [mount.storage for mount in node.spec(order).mounts] == ["jobs"]
    node.inventory = replace(node.inventory, storages=(), storage_faults={root: "away"})
    node.report()
    job = world.submit(name="meanwhile")
    world.cycle()
    job.refresh_from_db()
    assert job.waiting_message == "no server that it may run on offers jobs now: gpu01 (away)"
    assert [one.task.job for one in TaskAttempt.objects.all()] == [first]


@pytest.mark.parametrize("options", ["vers=4.2, ro", "ro,", "-o x", "a=b c"])
def test_options_are_words_between_commas(node: ScriptedNode, options: str) -> None:
    world: World = node.world  # type: ignore[attr-defined]
    with pytest.raises(Invalid, match="options such as vers"):
        storage_create(
            name="bad", kind="nfs", root="/mnt/b", export="filer:/b", options=options, vcs=[], now=world.now, actor="r"
        )
    with pytest.raises(Invalid, match="only an NFS storage has some"):
        storage_create(name="bad", root="/mnt/b", options="ro", vcs=[], now=world.now, actor="r")

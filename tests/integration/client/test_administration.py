"""The client's parts for administrators, against a real portal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from berth import AsyncClient, Client, Conflict, NotAllowed, NotFound, NotValid
from tests.integration.accounts.conftest import _fast_hash as _fast_hash
from tests.integration.client.conftest import token_for

if TYPE_CHECKING:
    from tests.support.cluster.world import World


@pytest.fixture
def admin(world: World, url: str) -> Iterator[Client]:
    """An administrator's client."""
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    with Client(url, token_for(person("root", ClusterRole.ADMIN)), trust_env=False) as made:
        yield made


def test_people_and_groups_are_made_changed_and_removed(admin: Client, berth: Client) -> None:
    group = admin.groups.create("crew", description="d", roles={"vision": "member"})
    assert (group.name, group.virtual_clusters[0].name) == ("crew", "vision")
    eve = admin.users.create("eve", password="correct horse 7", uid=5001)
    assert (eve.uid, eve.virtual_clusters) == (5001, [])
    admin.groups.add("crew", "eve")
    assert [user.username for user in admin.users.list(vc="vision")] == ["alice", "eve"]
    assert [one.name for one in admin.groups.list(user="eve")] == ["crew"]
    assert admin.users.change("eve", email="eve@example.org").email == "eve@example.org"
    admin.users.set_password("eve", "another horse 7")
    assert admin.groups.change("crew", roles={}).virtual_clusters == []
    admin.groups.drop("crew", "eve")
    assert admin.groups.get("crew").members == []
    assert not admin.users.change("eve", active=False).active
    assert [user.username for user in admin.users.list(active=False)] == ["eve"]
    admin.users.remove("eve")
    admin.groups.remove("crew")
    with pytest.raises(NotFound):
        admin.users.get("eve")
    with pytest.raises(Conflict):
        admin.users.change("root", role="user")
    with pytest.raises(NotAllowed):
        berth.users.create("eve")


def test_many_people_are_made_from_a_table(admin: Client, url: str) -> None:
    assert admin.users.import_csv(admin.users.template(), dry_run=True).refused == 1
    with pytest.raises(NotValid) as refused:
        admin.users.import_csv("username,role\nann,user\nben,king\n")
    assert [(one.line, one.path) for one in refused.value.errors] == [(3, "role")]
    done = admin.users.import_csv("username,role\nann,user\nben,king\n", all_or_nothing=False)
    assert [(row.username, row.created) for row in done.rows] == [("ann", True), ("ben", False)]

    async def names() -> list[str]:
        async with AsyncClient(url, admin.server.token, trust_env=False) as client:
            return [user.username async for user in client.users.list()]

    assert asyncio.run(names()) == ["alice", "ann", "root"]


def test_every_gpu_is_listed_with_its_holder(world: World, berth: Client) -> None:
    world.node("gpu01", gpus=2)
    world.submit(name="mine")
    world.settle()
    held, free = berth.gpus(node="gpu01")
    assert (held.state, held.holder and held.holder.label, free.state) == ("held", "alice/mine#1", "free")
    assert [gpu.uuid for gpu in berth.gpus(state=["free"])] == [free.uuid]


def test_images_are_allowed_and_disallowed(admin: Client, berth: Client) -> None:
    rule = admin.images.allow("busybox", vc="vision", note="small")
    assert [(one.pattern, one.vc) for one in berth.images.list()] == [("busybox", "vision")]
    admin.images.disallow(rule.id)
    assert list(berth.images.list()) == []


def test_templates_are_kept_and_used(admin: Client, berth: Client, world: World) -> None:
    from tests.support.cluster.world import job_file

    world.node("gpu01")
    public = admin.templates.create("all", job_file(name="t"), public=True)
    mine = berth.templates.create("mine", job_file(name="m"), description="d")
    assert [(one.name, one.visibility) for one in berth.templates.list()] == [("mine", "private"), ("all", "public")]
    assert berth.jobs.submit(berth.templates.get(public.id).file).name == "t"
    assert berth.templates.change(mine.id, description="e").description == "e"
    berth.templates.remove(mine.id)
    with pytest.raises(NotAllowed):
        berth.templates.remove(public.id)


def test_storages_are_made_changed_and_removed(admin: Client, berth: Client) -> None:
    made = admin.storages.create("data", "/mnt/data", read_only=True, virtual_clusters=["vision"])
    assert (made.read_only, made.nodes) == (True, [])
    assert [one.name for one in berth.storages.list()] == ["data"]
    assert admin.storages.change("data", virtual_clusters=[]).virtual_clusters == []
    with pytest.raises(NotFound):
        berth.storages.get("data")
    admin.storages.remove("data")
    assert list(admin.storages.list()) == []


def test_a_server_is_accepted_as_it_was_looked_at_and_opened_for_tasks_without_gpus(
    world: World, admin: Client, berth: Client
) -> None:
    from tests.support.cluster.scripted_node import ScriptedNode

    ScriptedNode("gpu01", accept=False, root="/mnt/data").report()
    pending = admin.nodes.get("gpu01")
    with pytest.raises(Conflict):
        admin.nodes.set_cpu_tasks("gpu01", True)
    with pytest.raises(NotAllowed):
        berth.nodes.accept("gpu01")
    looked_at = {**pending.claims, "cpu_milli": 1000}
    node = admin.nodes.accept("gpu01", claims=looked_at, cpu_tasks=False)
    assert (node.pending, node.cpu_tasks) == (False, False)
    assert admin.nodes.set_cpu_tasks("gpu01", True).cpu_tasks
    with pytest.raises(Conflict):
        admin.nodes.accept("gpu01")
    admin.storages.create("data", "/mnt/data", must_be_mount=False)
    assert [(one.node, one.tied, one.proof) for one in admin.storages.servers("data")] == [("gpu01", True, "")]
    assert not admin.storages.tie("data", "gpu01", tied=False).tied
    assert admin.storages.tie("data", "gpu01").tied

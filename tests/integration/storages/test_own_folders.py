"""Which folder of a storage a container sees: never the whole of one to write in where others have theirs by name."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.protocol.messages import Mount
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.integration.teams.test_quotas import give
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db
WHOLE, OWN = "/mnt/data", "/mnt/data/alice"


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=2, root="/mnt/data")
    return made


def storage(world: World, **about: Any) -> Storage:
    made = Storage.objects.create(**{"name": "data", "root": "/mnt/data", "must_be_mount": False} | about)
    made.vcs.add(world.vc)
    return made


def allow(vc: str, profile: str) -> None:
    VirtualCluster.objects.filter(name=vc).update(default_profile=profile)


def seen(world: World, profile: str | None = None, name: str = "data") -> Mount:
    """The storage in the container of a job."""
    berth = {"profile": profile} if profile else {}
    world.submit(extras={"storages": [{"name": name}], "gangAllocation": True, "berth": berth})
    world.cycle()
    node = world.nodes["gpu01"]
    (spec,) = (node.spec(order) for order in node.desired().orders)
    (mount,) = (one for one in spec.mounts if one.target == f"/mnt/{name}")
    return mount


@pytest.mark.parametrize(
    ("allowed", "asked", "about", "source"),
    [
        ("root", "root", {}, OWN),
        ("root", "user", {}, OWN),
        ("user", None, {}, WHOLE),
        ("root", "root", {"read_only": True}, WHOLE),
        ("root", "user", {"read_only": True}, WHOLE),
        ("root", "user", {"jobs": True}, WHOLE),
        ("user", None, {"per_user": True}, OWN),
        ("user", None, {"per_user": True, "read_only": True}, OWN),
    ],
)
def test_nobody_writes_beside_a_folder_that_is_found_by_its_name(
    world: World, allowed: str, asked: str | None, about: dict[str, Any], source: str
) -> None:
    storage(world, **about)
    allow("vision", allowed)
    mount = seen(world, asked)
    assert (mount.source, mount.create) == (source, source == OWN)
    assert mount.source == OWN or mount.read_only or allowed == "user"


@pytest.mark.parametrize("of", ["theirs", "everybody's", "another's", "a removed one's"])
def test_a_storage_is_whole_only_where_no_virtual_cluster_that_may_use_it_allows_root(world: World, of: str) -> None:
    other = vc_create(name="other", now=world.now)
    member_set(vc=other, user=world.user, role="member", now=world.now)
    give(world, "vision", "A100", 1)
    give(world, "other", "A100", 1)
    allow("vision", "user")
    made = storage(world, everyone=of == "everybody's")
    if of in ("theirs", "a removed one's"):
        made.vcs.add(other)
    if of == "a removed one's":
        VirtualCluster.objects.filter(name="other").update(removed_at=world.now)
    assert seen(world).source == (OWN if of in ("theirs", "everybody's") else WHOLE)


def test_of_two_of_one_folder_that_were_there_before_none_is_whole_to_write_in(world: World) -> None:
    allow("vision", "user")
    storage(world)
    storage(world, name="homes", per_user=True)
    assert seen(world).source == OWN

"""The fixtures that hand a small cluster of scripted nodes to tests, with a database and the whole portal behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from portal.accounts.models import User
    from tests.support.cluster.world import World


@pytest.fixture
def world(db: None) -> World:
    from tests.support.cluster.world import World

    return World()


@pytest.fixture
def teams(world: World) -> dict[str, User]:
    """Two nodes of two GPUs; Alice and Bob are in vision, Carol is in language, and each team owns two GPUs."""
    from portal.hardware.models import CellType
    from portal.teams.services.quotas import quota_set
    from portal.teams.services.teams import member_set, vc_create
    from tests.support.people.cast import person

    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=2)
    language = vc_create(name="language", host_network=True, now=world.now)
    leaf = CellType.objects.get(child__isnull=True)
    for vc in (world.vc, language):
        quota_set(vc=vc, cell_type=leaf, count=2, now=world.now)
    people = {"alice": world.user, "bob": person("bob"), "carol": person("carol")}
    for name, vc in (("bob", world.vc), ("carol", language)):
        member_set(vc=vc, user=people[name], role="lead", now=world.now)
    return people

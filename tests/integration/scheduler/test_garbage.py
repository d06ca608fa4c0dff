"""A cycle leaves nothing behind that only the collector of cyclic garbage can take away: it would be a whole plan."""

from __future__ import annotations

import gc

import pytest

from portal.accounts.models import User
from scheduling import Wait
from tests.integration.scheduler.plans import running, submitted
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def test_no_plan_outlives_its_cycle(world: World, teams: dict[str, User]) -> None:
    running(world, teams["alice"], {0: "gpu01/0"}, berth={"timeLimit": "1h"})
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            submitted(world, teams["alice"], {0: "gpu01/0", 1: "gpu01/1"})
            assert world.cycle().applied.reasons
            assert not [one for one in gc.get_objects() if type(one) is Wait]
    finally:
        gc.enable()

"""GPUs over time: noted every five minutes, shown on the cluster page, told by the API."""

from __future__ import annotations

from datetime import timedelta

import pytest

from portal.cluster.services.history import KEPT, gpus_count
from portal.hardware.models import Gpu, GpuCount
from tests.support.cluster.world import World
from tests.support.people.cast import Api
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


def test_what_gpus_are_is_noted_once_in_five_minutes(world: World) -> None:
    world.submit(gpu=2)
    world.settle()
    Gpu.objects.filter(allocations__isnull=True, index=3).update(fault="hot")
    assert gpus_count(now=world.now) == 1
    assert gpus_count(now=world.now + timedelta(seconds=1)) in {0, 1}
    assert gpus_count(now=world.now + timedelta(minutes=5)) == 1
    row = GpuCount.objects.order_by("at")[0]
    assert (row.held, row.lent, row.free, row.out, row.sick) == (2, 0, 1, 0, 1)
    assert row.at.minute % 5 == row.at.second == 0


def test_what_is_old_is_forgotten(world: World) -> None:
    gpus_count(now=world.now - KEPT - timedelta(hours=1))
    gpus_count(now=world.now)
    assert GpuCount.objects.count() == 1


def test_the_cluster_page_shows_them_over_time_and_the_api_tells_them(world: World) -> None:
    for hours in (30, 2, 1):
        gpus_count(now=world.now - timedelta(hours=hours))
    Gpu.objects.update(fault="hot")
    gpus_count(now=world.now)
    page = Browser(world.user).get("/cluster")
    assert "sick 4 1.33 4" in page.text  # the last, the average and the peak of a day
    assert "sick 4 1 4" in Browser(world.user).get("/cluster?days=7").text
    assert Browser(world.user).get("/cluster?days=nonsense").status == 200
    Gpu.objects.update(fault="")
    assert "sick 0 0 0" in Browser(world.user).get("/cluster").text, "what is so now, not five minutes ago"
    Gpu.objects.filter(index=0).update(fault="hot")
    week = Browser(world.user).get("/cluster?part=over-time&days=7", hx_request="true")
    assert "Last Average Peak" in week.text
    assert "sick 1 0.25 1" in week.text, "what an open page asks for again"
    assert week.tags[0][1]["data-hx-get"] == "/cluster?part=over-time&days=7"
    assert Api(world.user).names("gpus/history?sku=A100", "sick") == [0, 0, 0, 4]
    since = (world.now - timedelta(hours=3)).isoformat().replace("+00:00", "Z")
    assert Api(world.user).names(f"gpus/history?since={since}", "free") == [4, 4, 0]

"""The page of one node: its GPUs, what runs there, and what an administrator wants of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from nodes.protocol import GpuSample, Sample
from portal.accounts.models import ClusterRole
from portal.clusters.models import Gpu, Node
from portal.common.samples import sample_keep
from tests.support.cast import cast_of, person
from tests.support.pages import Browser
from tests.support.world import World

pytestmark = pytest.mark.django_db
PATH = "/cluster/nodes/gpu01"


@pytest.fixture
def world(db: None) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


def test_it_shows_what_runs_there_and_what_gpus_show_now(world: World) -> None:
    job = world.submit(gpu=2)
    world.settle()
    sample = tuple(
        GpuSample(uuid=gpu.uuid, utilisation=87, memory_used_mb=40_960, temperature_c=61, power_w=250)
        for gpu in Gpu.objects.all()
    )
    sample_keep(
        node="gpu01", sample=Sample(at_ms=int(time.time() * 1000), gpus=sample, cpu_milli={}, memory_mb={}),
        containers=(),
    )  # fmt: skip
    page = Browser(world.user).get(PATH)
    assert page.links["alice/train#1"] == f"/jobs/{job.pk}"
    assert "87 %" in page.text
    assert "61 °C 250 W" in page.text
    assert "worker/0 vision running" in page.text


def test_of_another_teams_task_one_sees_whose_it_is_and_not_which(world: World) -> None:
    world.submit(gpu=2)
    world.settle()
    page = Browser(cast_of(world.vc, world.user)["other"]).get(PATH)
    assert "train" not in page.html
    assert "a job of alice" in page.text


def test_a_task_without_gpus_is_there_too(world: World) -> None:
    world.submit(gpu=0, name="cpu-only")
    world.settle()
    assert "alice/cpu-only#1" in Browser(world.user).get(PATH).links


def test_it_says_what_the_server_is_and_what_happened_to_it(world: World) -> None:
    Gpu.objects.filter(index=3).update(fault="fell off the bus")
    page = Browser(world.user).get(PATH)
    assert "fell off the bus" in page.text
    assert "Node gpu01 was registered." in page.text
    assert "20000–29999" in page.text


def test_an_unknown_node_is_not_found(world: World) -> None:
    assert Browser(world.user).get("/cluster/nodes/nowhere").status == 404


def test_as_many_queries_for_many_tasks_as_for_one(world: World) -> None:
    browser, counts = Browser(world.user), []
    for number in range(3):
        world.submit(gpu=1, name=f"job-{number}")
        world.settle()
        counts.append(browser.queries(PATH))
    assert len(set(counts)) == 1


def test_an_administrator_cordons_a_node_with_a_reason_and_opens_it_again(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send(f"{PATH}/intent", form=PATH, intent="cordoned", reason="new fans")
    assert "Healthy, cordoned" in page.text
    assert "new fans" in page.text
    assert "free" not in page.text
    page = browser.send(f"{PATH}/intent", form=PATH, intent="open", reason="")
    assert "Healthy, cordoned" not in page.text


@pytest.mark.parametrize("who", ["lead", "owner", "auditor", "nobody"])
def test_nobody_else_can_change_what_is_wanted_of_a_node(world: World, who: str) -> None:
    browser = Browser(cast_of(world.vc, world.user)[who])
    assert "Cordon" not in browser.get(PATH).text
    answer = browser.send(f"{PATH}/intent", form="/profile", intent="cordoned", reason="")
    assert answer.status == 403
    assert Node.objects.get().intent == "open"


@pytest.mark.parametrize("typed", [{"intent": "explode"}, {}])
def test_an_intent_that_is_none_changes_nothing(world: World, typed: dict[str, Any]) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send(f"{PATH}/intent", form=PATH, **typed)
    assert "Nothing was changed" in page.text

"""The page of one node: its GPUs, what runs there, and what an administrator wants of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from nodes.protocol.messages import Exit, GpuProcess, GpuSample, Sample
from nodes.protocol.states import Cause, StopReason
from portal.accounts.models import ClusterRole
from portal.common.samples import sample_keep
from portal.hardware.models import Gpu, Node
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser, Page

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
        GpuSample(
            uuid=gpu.uuid,
            utilisation=87,
            memory_used_mb=40_960,
            temperature_c=61,
            power_w=250,
            sm_active=48,
            dram_active=12,
            processes=(
                GpuProcess(pid=4711, memory_mb=2048, attempt="a1", utilisation=60),
                GpuProcess(pid=4712, memory_mb=1024, attempt=None),
            ),
        )  # fmt: skip
        for gpu in Gpu.objects.all()
    )
    now_ms = int(time.time() * 1000)
    sample_keep(
        node="gpu01", sample=Sample(at_ms=now_ms, gpus=sample, cpu_milli={}, memory_mb={}), containers=(),
        now_ms=now_ms,
    )  # fmt: skip
    page = Browser(world.user).get(PATH)
    assert page.links["alice/train#1"] == f"/jobs/{job.pk}"
    assert "87 % SM 48 % · bandwidth 12 %" in page.text
    assert "process 4711: 2 GB, 60 % process 4712: 1 GB, foreign" in page.text
    assert "61 °C 250 W" in page.text
    assert "worker/0 vision running" in page.text


def test_on_a_phone_a_gpu_that_nobody_holds_is_not_said_to_be_held(world: World) -> None:
    world.submit(gpu=2)
    world.settle()
    Node.objects.update(health="lost")
    page = Browser(world.user).get(PATH)
    assert page.text.count("not usable") == 2
    assert page.attribute("td", "data-title").count("Held by") == 2, "the labels there, of the two that are held"


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


def test_it_says_so_where_it_promises_more_than_it_has(world: World) -> None:
    node, browser = world.nodes["gpu01"], Browser(world.user)
    told = "The machine has 2 CPU and 8 GB"
    node.inventory = replace(node.inventory, there_cpu_milli=2000, there_memory_mb=8192)
    node.report()
    page = browser.get(PATH)
    assert "32 CPU, 128 GB This is what jobs are promised" in page.text
    assert told in page.text
    node.inventory = replace(node.inventory, there_cpu_milli=node.inventory.cpu_milli, there_memory_mb=0)
    node.report()
    assert told not in browser.get(PATH).text


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


def typed_reason(page: Page) -> str:
    """What stands in the field."""
    (field,) = [named for _tag, named in page.tags if named.get("id") == "id_reason"]
    return field.get("value", "")


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ({"intent": "explode", "reason": "new fans"}, "Nothing was changed: choose what is wanted of the node."),
        ({"reason": "new fans"}, "Nothing was changed: choose what is wanted of the node."),
        ({"intent": "cordoned", "reason": "f" * 501}, "at most 500 characters"),
    ],
)
def test_a_wrong_value_changes_nothing_and_is_said_in_place_with_what_was_typed(
    world: World, typed: dict[str, str], complaint: str
) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send(f"{PATH}/intent", form=PATH, **typed)
    assert (page.status, typed_reason(page)) == (400, typed["reason"])
    assert complaint in page.text
    assert Node.objects.get().intent == "open"


def test_a_topology_that_cannot_be_taken_keeps_the_reason_that_was_typed(world: World) -> None:
    world.submit(gpu=4)
    world.settle()
    world.nodes["gpu01"].inventory = replace(world.nodes["gpu01"].inventory, gpus=())
    world.nodes["gpu01"].report()
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send(f"{PATH}/topology", form=PATH, reason="new fans")
    assert (page.status, typed_reason(page)) == (409, "new fans")
    assert "alert" in page.attribute("div", "role")


def drained(world: World) -> Browser:
    """An administrator who asks for it."""
    browser = Browser(person("root", ClusterRole.ADMIN))
    browser.send(f"{PATH}/intent", form=PATH, intent="draining", reason="new fans")
    return browser


def bar(page: Page) -> tuple[str, str]:
    """How much of how many."""
    ((value, most),) = [(named["value"], named["max"]) for tag, named in page.tags if tag == "progress"]
    return value, most


def until(page: Page) -> list[float]:
    """In how many seconds each task is gone at the latest."""
    return [int(at) / 1000 - time.time() for at in page.attribute("span", "data-until")]


def test_a_drain_shows_how_many_tasks_are_gone_and_by_when_the_others_are(world: World) -> None:
    for number, grace in enumerate((30, 600)):
        world.submit(gpu=1, name=f"job-{number}", berth={"gracePeriod": grace, "timeLimit": "1h"})
    world.settle()
    assert "progress" not in [tag for tag, _named in Browser(world.user).get(PATH).tags]
    browser = drained(world)
    page = browser.get(PATH, HX_Request="true")
    assert bar(page) == ("0", "2")
    assert all(3500 < seconds <= 3600 for seconds in until(page)), "their time limits, as long as no cycle ran"
    world.cycle()
    page = browser.get(PATH, HX_Request="true")
    assert "0 of 2 tasks are gone." in page.text
    assert sorted(round(seconds / 30) for seconds in until(page)) == [1, 20], "their grace"
    node = world.nodes["gpu01"]
    (first,) = (order for order in node.desired().orders if order.stop and order.stop.grace_s == 30)
    node.end(first, Exit(cause=Cause.STOPPED, code=143, stop_reason=StopReason.DRAINED))
    node.report()
    page = Browser(world.user).get(PATH)
    assert (bar(page), "1 of 2 tasks are gone." in page.text) == (("1", "2"), True)
    world.obeyed()
    page = browser.get(PATH)
    assert (bar(page), until(page)) == (("2", "2"), [])
    assert "All 2 tasks that ran here are gone: the drain is done." in page.text
    page = browser.send(f"{PATH}/intent", form=PATH, intent="open", reason="")
    assert "gone" not in page.text


def test_before_a_drain_is_asked_how_many_tasks_it_would_end(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    assert asked(browser.get(PATH)) == "Drain gpu01? 0 tasks that run here are told to end, and start elsewhere."
    world.submit(gpu=1)
    world.settle()
    assert asked(browser.get(PATH)) == "Drain gpu01? 1 task that runs here is told to end, and starts elsewhere."


def asked(page: Page) -> str:
    """The question of the one button that has one."""
    (question,) = page.attribute("button", "data-confirm")
    assert [tag["value"] for kind, tag in page.tags if kind == "button" and "data-confirm" in tag] == ["draining"]
    return question


def test_a_drain_of_an_idle_node_says_that_nothing_ran_there(world: World) -> None:
    browser = drained(world)
    assert "Nothing ran here when the drain began." in browser.get(PATH).text


def test_a_second_drain_counts_from_its_own_beginning(world: World) -> None:
    world.submit(gpu=1)
    world.settle()
    browser = drained(world)
    world.settle()
    browser.send(f"{PATH}/intent", form=PATH, intent="open", reason="")
    drained_again = browser.send(f"{PATH}/intent", form=PATH, intent="draining", reason="")
    assert "Nothing ran here when the drain began." in drained_again.text

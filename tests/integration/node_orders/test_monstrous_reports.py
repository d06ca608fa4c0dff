"""Whoever took a node over may report numbers and texts of any size: they are cut to what can be, and spoil no alert,
no metrics and no page."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.messages import (
    ContainerReport,
    DiskShare,
    Exit,
    GpuInfo,
    GpuProcess,
    GpuSample,
    Inventory,
    Progress,
    Sample,
)
from nodes.protocol.names import samples_key
from nodes.protocol.states import Cause, ContainerState
from portal.accounts.models import ClusterRole, User
from portal.alerts.gauges import gauges
from portal.alerts.models import AlertWatch
from portal.alerts.telling import alerts_look
from portal.common.samples import readings
from portal.common.told import LONGEST_LOG, MOST
from portal.common.wake import redis_once
from portal.hardware.models import Gpu, Node, NodeEvent
from portal.hardware.selectors.live import gpus_live
from portal.jobs.models import JobEvent, TaskAttempt
from portal.scheduler.reports import report_take
from tests.integration.scheduler.looking import quiet_world
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db
HUGE = 10**400
DIGITS = "9" * 5000


@pytest.fixture
def world(settings: Settings) -> World:
    return quiet_world(settings)


@pytest.fixture
def root(world: World) -> User:
    return person("root", ClusterRole.ADMIN)


def monstrous(inventory: Inventory) -> Inventory:
    (gpu,) = inventory.gpus
    return replace(
        inventory, agent=f"7.{DIGITS}", hostname=DIGITS, engine=DIGITS, kernel=DIGITS, capabilities=(DIGITS,),
        disk_free_mb=1, disk_total_mb=HUGE, disk_full=True,
        largest=(DiskShare(what=DIGITS, mb=HUGE, name=DIGITS), DiskShare(what="images", mb=-HUGE)),
        gpus=(replace(gpu, numa=HUGE, nvlink_group=-HUGE, pcie_group=HUGE, pci=DIGITS, driver=DIGITS, cuda=DIGITS,
                      healthy=False, fault=DIGITS),),
    )  # fmt: skip


def test_what_no_node_can_have_spoils_neither_alerts_nor_metrics_nor_its_page(
    world: World, root: User, redis_server: RedisServer
) -> None:
    node = world.nodes["gpu01"]
    node.inventory = monstrous(node.inventory)
    reading = GpuSample(uuid="GPU-gpu01-0", utilisation=HUGE, memory_used_mb=HUGE, temperature_c=-HUGE, power_w=HUGE,
                        sm_clock_mhz=HUGE, ecc_uncorrected=HUGE, sm_active=HUGE, sm_occupancy=-1, tensor_active=-HUGE,
                        dram_active=101, processes=(GpuProcess(pid=-HUGE, memory_mb=HUGE, attempt=DIGITS,
                                                               utilisation=HUGE),))  # fmt: skip
    sample = Sample(at_ms=int(time.time() * 1000), gpus=(reading,), load_milli=HUGE, memory_used_mb=HUGE)
    assert report_take(text=node.report_text(sample=sample), now=timezone.now())
    Node.objects.filter(name="gpu02").update(health="lost")

    told = {(one["code"], one["name"]): one for one in Api(root).get("alerts")}
    assert {("node_lost", "gpu02"), ("disk_low", "gpu01"), ("node_version", "gpu01"), ("gpu_faulty", "gpu01/0")} <= (
        told.keys()
    )
    assert all(len(one["message"]) < 1000 for one in told.values())
    assert b'berth_gpu_utilisation_percent{gpu="0",node="gpu01"' in gauges(now=timezone.now())
    live = gpus_live(nodes=["gpu01"])["gpu01", "GPU-gpu01-0"].reading
    assert (live.utilisation, live.sm_active, live.sm_occupancy, live.tensor_active, live.dram_active) == (
        100, 100, 0, 0, 100,
    )  # fmt: skip
    assert Browser(root).get(reverse("node", args=["gpu01"])).status == 200
    assert alerts_look(now=timezone.now())


def test_what_is_kept_of_one_node_and_cannot_be_read_keeps_no_other_alert_back(
    world: World, root: User, caplog: pytest.LogCaptureFixture
) -> None:
    Node.objects.filter(name="gpu01").update(
        inventory={"disk_free_percent": 1, "largest": [["images", "", HUGE]]}, intent="open"
    )  # as an earlier release took it in
    Node.objects.filter(name="gpu02").update(health="lost")
    told = {one["code"]: one for one in Api(root).get("alerts")}
    assert told["node_lost"]["name"] == "gpu02"
    assert (told["node_unclear"]["name"], told["node_unclear"]["severity"]) == ("gpu01", "warning")
    assert "what is wrong with gpu01 cannot be told" in caplog.text
    assert b'berth_alerts{code="node_unclear"' in gauges(now=timezone.now())


def test_a_log_is_as_long_as_one_can_be_and_metrics_bear_any_sum_of_such(world: World) -> None:
    world.submit(name="a")
    world.submit(name="b")
    world.settle()
    (first, *_) = [node for node in world.nodes.values() if node.containers]
    first.containers = {key: replace(one, log_end=HUGE) for key, one in first.containers.items()}
    assert first.report()
    assert TaskAttempt.objects.filter(log_end=LONGEST_LOG).exists()
    TaskAttempt.objects.update(log_end=(1 << 63) - 1)  # as many reports' sum
    assert b"berth_log_lag_bytes 1.84" in gauges(now=timezone.now())


def test_more_than_a_server_has_is_cut_and_told_once(world: World) -> None:
    node = world.nodes["gpu01"]
    gpus = tuple(GpuInfo(uuid=f"GPU-x{n}", index=n + 1, model="A100", memory_mb=1) for n in range(100))
    roots = tuple(f"/mnt/{n}" for n in range(5000))
    node.inventory = replace(node.inventory, gpus=node.inventory.gpus + gpus, storages=roots)
    unknown = ContainerReport(attempt="", state=ContainerState.RUNNING, spec_hash="", generation=0)
    node.containers = {name: replace(unknown, attempt=name) for name in (f"task{n:05}" for n in range(5001))}
    node.containers["task05000"] = replace(node.containers["task05000"], gpus=("GPU-gpu01-0",))
    assert node.report()
    node.accept()
    row = node.row
    assert (Gpu.objects.filter(node=row).count(), len(row.storages), len(row.strangers)) == (64, 1024, 512)
    assert "task05000" in row.strangers, "it holds a GPU, which has to be fenced off"
    for code in ("too_many", "containers_too_many"):
        (event,) = NodeEvent.objects.filter(node=row, code=code)
        assert "gpu01" in event.message


def test_what_is_told_of_a_container_fits_its_columns_and_everybodys_pages(world: World) -> None:
    job = world.submit()
    world.settle()
    (node,) = [node for node in world.nodes.values() if node.containers]
    (order,) = node.desired().orders
    node.containers[order.attempt] = replace(
        node.containers[order.attempt], isolation=DIGITS, container=DIGITS, log_dropped_lines=HUGE,
        progress=Progress(code=DIGITS, percent=HUGE, message=DIGITS),
    )  # fmt: skip
    assert node.report()
    row = TaskAttempt.objects.get(task__job=job)
    assert (len(row.isolation), len(row.container), row.log_dropped_lines) == (40, 64, MOST)
    assert len(json.dumps(row.progress)) < 3000
    node.end(order, Exit(cause=Cause.ENGINE_FAULT, code=HUGE, signal=-HUGE, message=DIGITS, log_tail=DIGITS))
    assert node.report()
    row.refresh_from_db()
    assert (row.exit_code, row.exit_signal, len(row.exit_message), len(row.log_tail)) == (MOST, -MOST, 2000, 4096)
    assert all(len(event.message) < 3000 for event in JobEvent.objects.all())


@pytest.mark.parametrize("field", ["boot", "seq", "sent_ms"])
def test_a_report_whose_number_no_column_holds_is_told_as_unreadable(world: World, field: str) -> None:
    node = world.nodes["gpu01"]
    for number in ((1 << 62) + 1, -1, HUGE):
        assert not report_take(text=node.report_text(**{field: number}), now=timezone.now())
    assert "cannot be read" in node.row.agent_fault
    assert node.report()


@pytest.mark.parametrize("value", ["NaN", "1e308", '"98"', "0.5"])
def test_a_reading_that_is_no_whole_number_is_told_as_unreadable(world: World, value: str) -> None:
    node = world.nodes["gpu01"]
    reading: dict[str, Any] = {"sm_active": msgspec.Raw(value.encode())}
    sample = Sample(at_ms=int(time.time() * 1000), gpus=(GpuSample(uuid="GPU-gpu01-0", **reading),))
    assert not report_take(text=node.report_text(sample=sample), now=timezone.now())
    assert "cannot be read" in node.row.agent_fault
    assert not gpus_live(nodes=["gpu01"])


def test_of_a_sample_no_more_is_kept_than_a_server_has(world: World, redis_server: RedisServer) -> None:
    """Each page with GPUs reads the newest of all servers, and one process folds those of all."""
    node = world.nodes["gpu01"]
    process = GpuProcess(pid=1, memory_mb=1, attempt="x" * 300)
    gpu = GpuSample(uuid="GPU-gpu01-0", throttle=("x" * 300,) * 100, processes=(process,) * 100)
    names = [str(UUID(int=number)) for number in range(1100)]
    sample = Sample(
        at_ms=int(time.time() * 1000), gpus=(gpu, *(GpuSample(uuid=f"{n:03}-{DIGITS}") for n in range(100))),
        cpu_milli=dict.fromkeys(names, 1), memory_mb=dict.fromkeys([DIGITS, *names], 1),
    )  # fmt: skip
    running = ContainerReport(attempt="", state=ContainerState.RUNNING, spec_hash="", generation=0,
                              gpus=("GPU-gpu01-0",) * 70)  # fmt: skip
    node.containers = {name: replace(running, attempt=name) for name in names}
    assert report_take(text=node.report_text(sample=sample), now=timezone.now())
    assert len(gpus_live(nodes=["gpu01"])) == 64
    assert len(redis_once().get(samples_key("gpu01")) or b"") < 200_000
    ((_, (kept,)),) = readings(redis=redis_once(), nodes=["gpu01"], first_ms=0, end_ms=1 << 62)
    assert {len(task.gpus) for task in kept.tasks} == {64}
    assert len(kept.tasks) == 1024


def test_a_look_that_fails_is_none(world: World, root: User) -> None:
    before = timezone.now() - timedelta(seconds=90)
    AlertWatch.objects.create(
        looked_at=before, known={"node_lost:node:gpu09": {"said": {}, "severity": "critical", "gone": "no moment"}}
    )
    with pytest.raises(ValueError, match="no moment"):
        alerts_look(now=timezone.now())
    assert AlertWatch.objects.get().looked_at == before
    assert "control_stopped" in {one["code"] for one in Api(root).get("alerts")}, "nobody is told by mail"
    AlertWatch.objects.update(known={})
    assert alerts_look(now=timezone.now()), "the next one looks"

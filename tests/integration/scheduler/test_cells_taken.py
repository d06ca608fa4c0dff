"""Cells are taken away while jobs start and end: no job lies on a GPU without a cell, and no reading fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

import scheduling
from portal.accounts.models import User
from portal.cluster.services.configuration import configuration_import, configuration_read
from portal.cluster.services.topology import topology_take
from portal.common.errors import Conflict, Invalid
from portal.hardware.models import Gpu, Node
from portal.jobs.models import Job
from portal.jobs.services.stop import job_stop
from portal.scheduler.apply import Applied
from portal.scheduler.quota_dry_run import dry_run_effect
from portal.teams.models import QuotaLine
from tests.integration.scheduler.plans import carry_out, read, running, start, submitted
from tests.support.cluster.world import World
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.django_db
Teams = dict[str, User]


def smaller() -> scheduling.Cluster:
    """A configuration in which gpu01 has its first GPU only."""
    kinds = {"one": {"childCellType": "A100", "childCellNumber": 1, "isNodeLevel": True}}
    physical = {"cellTypes": kinds, "physicalCells": [{"cellType": "one", "cellAddress": "gpu01"}]}
    return configuration_read({"physicalCluster": physical, "virtualClusters": {"vision": {}}})


def take(found: scheduling.Cluster) -> None:
    configuration_import(found=found, now=timezone.now(), actor="root")


def anew() -> None:
    topology_take(node=Node.objects.get(name="gpu01"), now=timezone.now(), actor="root")


@pytest.mark.parametrize("change", [lambda: take(smaller()), anew], ids=["configuration", "topology"])
def test_a_start_that_was_decided_before_is_decided_anew(
    world: World, teams: Teams, change: Callable[[], None]
) -> None:
    job = submitted(world, world.user, {0: "gpu01/1"})
    loaded = read()
    change()
    assert carry_out(loaded, starts=[start(loaded, job, {0: "gpu01/1"})]) == Applied(skipped=1)
    assert world.cycle().applied.skipped == 0


def test_a_gpu_that_is_in_use_since_the_file_was_read_keeps_its_cell(world: World, teams: Teams) -> None:
    found = smaller()
    running(world, world.user, {0: "gpu01/1"})
    with pytest.raises(Invalid) as refused:
        take(found)
    assert [fault.message for fault in refused.value.faults] == ["GPU 1 of gpu01 is in use and has no cell"]
    assert world.cycle().applied.skipped == 0


def test_a_gpu_in_use_of_a_model_that_is_in_the_minority_now_keeps_its_cell(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    world.submit(gpu=1)
    world.settle()
    old = node.inventory.gpus[0]
    others = [replace(old, uuid=f"GPU-new-{index}", index=index, model="NVIDIA T4") for index in (1, 2)]
    node.inventory = replace(node.inventory, gpus=(old, *others))
    assert node.report()
    node.accept()
    QuotaLine.objects.all().delete()
    with pytest.raises(Conflict, match="is in use"):
        anew()
    assert Gpu.objects.get(index=0).slot == 0


def test_a_job_whose_gpu_has_lost_its_cell_stops_nobody(world: World, teams: Teams) -> None:
    lame = running(world, world.user, {0: "gpu01/1"}, name="lame")
    Gpu.objects.filter(node__name="gpu01", index=1).update(slot=None)
    second = submitted(world, world.user, {0: "gpu02/0"}, name="next")
    world.settle()
    assert {job.state for job in Job.objects.filter(pk__in=[lame.pk, second.pk])} == {"running"}


def needs_several_writers() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")


def beside(work: Callable[[], object]) -> Thread:
    """``work`` in a thread, on a connection of its own."""

    def run() -> None:
        work()
        connection.close()

    return Thread(target=run)


@pytest.mark.django_db(transaction=True)
def test_a_start_beside_an_import_waits_for_it_and_is_decided_anew(world: World, teams: Teams) -> None:
    needs_several_writers()
    job = submitted(world, world.user, {0: "gpu01/1"})
    loaded, applied = read(), []
    starting = beside(lambda: applied.append(carry_out(loaded, starts=[start(loaded, job, {0: "gpu01/1"})])))
    with transaction.atomic():
        take(smaller())
        starting.start()
        wait_until(somebody_waits, "the start to want the node")
    starting.join(30)
    assert applied == [Applied(skipped=1)]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ends_while_a_change_is_looked_at_is_no_failure(world: World, teams: Teams) -> None:
    needs_several_writers()
    job = running(world, world.user, {0: "gpu01/1"})

    def end() -> None:
        job_stop(job=Job.objects.get(pk=job.pk), actor=world.user, now=timezone.now())
        world.obeyed()

    ending, asked = beside(end), list[str]()

    def look(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        asked.append(sql)
        if "hardware_" in sql and ending.ident is None and any("jobs_allocation" in one for one in asked):
            ending.start()
            ending.join(30)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        effect = dry_run_effect(change=lambda: None, now=timezone.now())
    assert (effect.demoted, effect.preempted) == ([], [])
    job.refresh_from_db()
    assert job.state == "stopped"


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        mine = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        cursor.execute(mine)
        return cursor.fetchone() is not None

"""Alerts: each thing that can be wrong is told with what to do, to whom it concerns, and is gone when it is over."""

from __future__ import annotations

import errno
import shutil
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils import timezone

from nodes.protocol.messages import ContainerReport
from nodes.protocol.names import FOREIGN_PROCESS
from nodes.protocol.states import ContainerState
from portal.accounts.models import ClusterRole, User
from portal.alerts import parts
from portal.alerts.gauges import gauges
from portal.common.asking import Asking
from portal.hardware.doomed import DoomedCells, doomed_keep
from portal.hardware.models import Gpu, Node, ReportsLane
from portal.hardware.wordings import NO_REPORT
from portal.jobs.models import TaskAttempt
from portal.scheduler.models import CycleLease
from portal.storages.services.storages import storage_create
from portal.teams.models import KeptLogs, VirtualCluster
from portal.teams.selectors.kept_logs import GB
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Two nodes that report, a job on each, and a scheduler that has just worked."""
    made = World()
    for name in ("gpu01", "gpu02"):
        made.node(name, gpus=1)
        made.submit(name=f"on-{name}")
    made.settle()
    return made


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def alerts(api: Api) -> dict[str, dict[str, Any]]:
    """By code and name; the disk of the machine that tests is its own matter."""
    rows = api.get("alerts")
    assert all(row["message"] and row["advice"].endswith(".") for row in rows)
    return {f"{row['code']} {row['name']}": row for row in rows if row["name"] != "data folder"}


def test_where_nothing_is_wrong_there_is_none(admin: Api) -> None:
    assert alerts(admin) == {}


def test_logs_that_have_soon_no_room_are_told_to_who_leads_the_virtual_cluster(world: World, admin: Api) -> None:
    lead = Api(person("leo"))
    member_set(vc=world.vc, user=User.objects.get(username="leo"), role="lead", now=world.now)
    vc = VirtualCluster.objects.get(pk=world.vc.pk)
    vc.log_quota_gb = 10
    vc.save()
    kept = KeptLogs.objects.create(vc=vc, over=9 * GB - 1, live=10 * GB, counted_at=world.now)
    assert alerts(admin) == {}
    KeptLogs.objects.update(over=9 * GB)
    (row,) = alerts(lead).values()
    assert (row["code"], row["severity"], row["virtual_clusters"]) == ("log_quota", "info", [vc.name])
    assert "have 9 GB of logs, of 10 GB that are kept" in row["message"]
    KeptLogs.objects.filter(pk=kept.pk).update(live=11 * GB)
    (row,) = alerts(lead).values()
    assert (row["severity"], "Its live jobs have written 11 GB" in row["message"]) == ("warning", True)


def test_a_lost_node_is_told_since_its_last_report_with_whose_tasks_were_there(world: World, admin: Api) -> None:
    Node.objects.filter(name="gpu01").update(health="lost", health_reason=NO_REPORT(time="12:00:00", seconds=60))
    (row,) = alerts(admin).values()
    assert (row["code"], row["severity"], row["kind"], row["name"]) == ("node_lost", "critical", "node", "gpu01")
    assert row["virtual_clusters"] == ["vision"]
    assert row["since"] == admin.get("nodes/gpu01")["last_report_at"]
    assert "systemctl" in row["advice"]


def test_that_no_server_takes_new_jobs_is_told_for_the_cluster_or_for_a_kind_of_gpu(world: World, admin: Api) -> None:
    Node.objects.filter(name="gpu01").update(intent="draining", intent_reason="a new fan")
    assert alerts(admin) == {}
    world.node("gpu03", gpus=1, model="H100")
    Node.objects.filter(name="gpu02").update(intent="cordoned")
    (row,) = alerts(admin).values()
    assert (row["code"], row["severity"], row["virtual_clusters"]) == ("servers_closed", "warning", ["vision"])
    said = "No server with A100 takes new jobs. gpu01, gpu02: 1 draining, 1 cordoned (a new fan)."
    assert row["message"] == said
    Node.objects.filter(name="gpu03").update(health="lost")
    row = alerts(admin)["servers_closed all servers"]
    said = "No server takes new jobs. gpu01, gpu02, gpu03: 1 draining, 1 cordoned, 1 lost (a new fan)."
    assert (row["severity"], row["message"]) == ("critical", said)


def test_nodes_that_fall_silent_are_told_before_they_are_lost_and_many_together_as_one(
    world: World, admin: Api
) -> None:
    world.node("gpu03", gpus=1)
    late = timezone.now() - timedelta(seconds=40)
    Node.objects.filter(name="gpu01").update(last_report_at=late)
    assert list(alerts(admin)) == ["node_silent gpu01"]
    Node.objects.filter(name="gpu02").update(last_report_at=late)
    (row,) = alerts(admin).values()
    assert (row["code"], row["message"][:12]) == ("nodes_silent", "2 of 3 nodes")
    lead = person("lead")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    assert list(alerts(Api(lead))) == ["nodes_silent nodes"], "it concerns every team"


def test_a_faulty_gpu_is_told_since_it_was_with_whose_job_holds_it(world: World, admin: Api) -> None:
    node = world.nodes["gpu01"]
    (info,) = node.inventory.gpus
    node.inventory = replace(node.inventory, gpus=(replace(info, healthy=False, fault="XID 79"),))
    node.report()
    (row,) = alerts(admin).values()
    assert (row["code"], row["name"], row["virtual_clusters"]) == ("gpu_faulty", "gpu01/0", ["vision"])
    assert "XID 79" in row["message"]
    assert row["since"] is not None
    node.inventory = replace(node.inventory, gpus=(info,))
    node.report()
    assert list(alerts(admin)) == ["gpu_faulty gpu01/0"]
    admin.call("POST", "nodes/gpu01/put-back", {"reason": "replaced"})
    assert alerts(admin) == {}
    Gpu.objects.filter(node__name="gpu01").update(present=False)
    assert list(alerts(admin)) == ["gpu_gone gpu01/0"]


def test_quota_at_risk_is_told_to_its_leads(world: World, admin: Api) -> None:
    doomed_keep({"vision": [DoomedCells("A100", "A100", 1)]})
    (row,) = alerts(admin).values()
    assert (row["code"], row["name"], "1 x A100" in row["message"]) == ("quota_at_risk", "vision", True)
    lead, other = person("lead"), person("other")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    member_set(vc=vc_create(name="elsewhere", now=world.now), user=other, role="lead", now=world.now)
    assert list(alerts(Api(lead))) == ["quota_at_risk vision"]
    assert alerts(Api(other)) == alerts(Api(world.user)) == {}


def test_a_storage_that_nodes_do_not_offer_is_told_as_badly_as_it_is(world: World, admin: Api) -> None:
    storage_create(name="data", root="/mnt/data", vcs=[world.vc], now=world.now, actor="root")
    storage_create(name="jobs", root="/mnt/jobs", vcs=[], jobs=True, now=world.now, actor="root")
    found = {name: (row["severity"], row["virtual_clusters"]) for name, row in alerts(admin).items()}
    assert found == {
        "storage_missing data": ("warning", ["vision"]), "storage_missing jobs": ("critical", ["vision"]),
    }  # fmt: skip
    Node.objects.filter(name="gpu01").update(storages=["/mnt/data", "/mnt/jobs"])
    found = {name: (row["severity"], row["message"]) for name, row in alerts(admin).items()}
    where = "These nodes do not offer it: gpu02."
    assert found == {"storage_missing data": ("info", where), "storage_missing jobs": ("warning", where)}
    Node.objects.update(storages=["/mnt/data", "/mnt/jobs"])
    assert alerts(admin) == {}


def test_a_container_that_outlives_sigkill_is_told_until_it_is_gone(world: World, admin: Api) -> None:
    attempt = TaskAttempt.objects.get(node__name="gpu01")
    TaskAttempt.objects.filter(pk=attempt.pk).update(cause="unkillable", ended_at=timezone.now())
    (row,) = alerts(admin).values()
    assert (row["code"], row["name"], row["virtual_clusters"]) == ("container_unkillable", "gpu01", ["vision"])
    TaskAttempt.objects.filter(pk=attempt.pk).update(released_at=timezone.now())
    assert alerts(admin) == {}


def test_processes_that_no_job_started_are_told(world: World, admin: Api) -> None:
    node = world.nodes["gpu01"]
    first = replace(node.inventory.gpus[0], healthy=False, fault=f"{FOREIGN_PROCESS}4711 (python3)")
    node.inventory = replace(node.inventory, gpus=(first, *node.inventory.gpus[1:]))
    node.report()
    (row,) = alerts(admin).values()
    assert (row["code"], row["name"], "4711" in row["message"]) == ("gpu_foreign_process", "gpu01/0", True)


def test_a_container_that_the_portal_does_not_know_is_told_also_without_gpus(world: World, admin: Api) -> None:
    node = world.nodes["gpu02"]
    folder = "/mnt/jobs/carol/train-7"
    unknown = ContainerReport(
        attempt=str(uuid4()), state=ContainerState.RUNNING, spec_hash="x", generation=1, folder=folder
    )
    node.containers[unknown.attempt] = unknown
    node.report()
    (row,) = alerts(admin).values()
    assert (row["code"], row["name"], unknown.attempt in row["message"]) == ("container_unknown", "gpu02", True)
    assert row["message"].endswith(f" Its job folder is {folder}.")


def test_a_scheduler_and_a_reports_worker_that_stand_still_are_told(world: World, admin: Api) -> None:
    long_ago = timezone.now() - timedelta(minutes=5)
    CycleLease.objects.update(until=long_ago)
    ReportsLane.objects.update(open_since=long_ago, last_pulse_at=long_ago)
    assert list(alerts(admin)) == ["reports_stopped reports", "scheduler_stopped scheduler"]


def test_a_node_that_never_came_and_one_with_a_wrong_clock_are_told(world: World, admin: Api) -> None:
    Node.objects.filter(name="gpu01").update(clock_skew_ms=90_000)
    Node.objects.create(name="gpu09")
    Node.objects.filter(name="gpu09").update(joined_at=timezone.now() - timedelta(hours=1))
    assert list(alerts(admin)) == ["node_clock gpu01", "node_never_came gpu09"]


def test_a_disk_that_gets_full_is_told_from_what_the_node_reports(world: World, admin: Api) -> None:
    node = world.nodes["gpu01"]
    for free, severity in ((500, None), (90, "warning"), (95, "warning"), (10, "critical"), (300, None)):
        node.inventory = replace(node.inventory, disk_total_mb=1000, disk_free_mb=free)
        node.report()
        found = alerts(admin).get("disk_low gpu01")
        assert (found and found["severity"]) == severity, free


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def test_the_portals_own_disk_is_told(world: World, admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Disk(100, 98, 2))
    (row,) = [one for one in admin.get("alerts") if one["code"] == "disk_low"]
    assert (row["severity"], row["name"], "2 %" in row["message"]) == ("critical", "data folder", True)


@pytest.mark.parametrize(
    ("number", "why"), [(errno.ENOENT, "No such file or directory"), (errno.ESTALE, "Stale file handle")]
)
def test_a_data_folder_that_is_away_is_told_beside_all_other_alerts(
    world: World, admin: Api, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    def away(_path: object) -> Disk:
        raise OSError(number, why)

    Node.objects.filter(name="gpu01").update(health="lost")
    monkeypatch.setattr(shutil, "disk_usage", away)
    told = {row["code"]: row for row in admin.get("alerts")}
    assert told.keys() == {"node_lost", "data_folder_away"}
    row = told["data_folder_away"]
    assert (row["severity"], row["name"]) == ("critical", "data folder")
    assert row["message"].endswith(f"cannot be read: {why}.")
    assert b'berth_alerts{code="data_folder_away",severity="critical"} 1.0' in gauges(now=timezone.now())


def test_a_data_folder_that_does_not_answer_is_told_and_asked_once(
    world: World, admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, server_back = [], threading.Event()

    def hangs(path: object) -> Disk:
        asked.append(path)
        server_back.wait(120)
        return Disk(100, 50, 50)

    monkeypatch.setattr(shutil, "disk_usage", hangs)
    monkeypatch.setattr(parts, "_USAGE", Asking(lambda: shutil.disk_usage(settings.DATA_DIR), 0.2))
    for _ in range(3):
        (row,) = admin.get("alerts")
        assert (row["code"], "cannot be read: it does not answer." in row["message"]) == ("data_folder_away", True)
    assert len(asked) == 1, "no thread is begun beside one that hangs"
    server_back.set()
    wait_until(lambda: admin.get("alerts") == [], "the folder's answer")


def test_they_are_chosen_by_severity_kind_and_code(world: World, admin: Api) -> None:
    Node.objects.filter(name="gpu01").update(health="lost")
    CycleLease.objects.all().delete()
    storage_create(name="data", root="/mnt/data", vcs=[], now=world.now, actor="root")
    auditor = Api(person("audit", ClusterRole.AUDITOR))
    assert [row["code"] for row in auditor.get("alerts?kind=node")] == ["node_lost"]
    assert {row["code"] for row in admin.get("alerts?severity=critical&name=gpu01&name=scheduler")} == {
        "node_lost", "scheduler_stopped",
    }  # fmt: skip
    assert admin.call("GET", "alerts?severity=bad").status_code == 400
    assert VirtualCluster.objects.count() == 1

"""A server is taken away when nothing runs on it; what ran there stays, and it may come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import Gpu, Node, NodeEvent
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Job, TaskAttempt
from portal.scheduler.reconcile import jobs_reconcile
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db
AT = "nodes/gpu02"


@pytest.fixture
def root(db: None) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def test_one_on_which_a_task_runs_stays_until_that_has_ended(world: World, root: Api) -> None:
    node = world.node("gpu02", gpus=2)
    job = world.submit(gpu=1)
    world.settle()
    for path in (AT, f"{AT}?dry_run=true"):
        refused = root.call("DELETE", path)
        assert refused.status_code == 409
        assert refused.json()["detail"] == "1 task runs on gpu02: drain it, and remove it when they have ended."
    page = Browser(person("admin", ClusterRole.ADMIN)).get("/cluster/nodes/gpu02/remove")
    assert "1 task runs on gpu02" in page.text
    assert "Remove it" not in page.text
    node.finish()
    world.settle()
    assert root.call("DELETE", AT).status_code == 200
    detail = root.get(f"jobs/{job.pk}/tasks")["results"][0]
    assert "gpu02" in str(detail), "its past tells where it ran"
    assert Allocation.objects.get(task_attempt__job_attempt__job=job).leaf.node.name == "gpu02"


def test_a_look_tells_what_would_be_short_and_changes_nothing(world: World, root: Api) -> None:
    world.node("gpu01", gpus=2)
    world.node("gpu02", gpus=2)
    told = root.call("DELETE", f"{AT}?dry_run=true").json()
    short = ["the quotas need 4 A100, 2 are there"]
    assert told == {"dry_run": True, "shortages": short, "demoted": [], "preempted": [], "stranded": []}
    browser = Browser(person("admin", ClusterRole.ADMIN))
    assert short[0] in browser.get("/cluster/nodes/gpu02/remove").text
    assert (Node.objects.count(), AuditEntry.objects.filter(action="node.remove").count()) == (2, 0)
    assert "gpu02 is removed" in browser.send("/cluster/nodes/gpu02/remove").text
    (entry,) = AuditEntry.objects.filter(action="node.remove")
    assert (entry.actor, entry.target, entry.before and entry.before["gpus"]) == ("admin", "gpu02", 2)
    assert NodeEvent.objects.filter(code="removed").count() == 1


def test_jobs_that_wait_for_it_alone_are_named_and_told_when_it_is_gone(world: World, root: Api) -> None:
    for name in ("gpu01", "gpu02", "gpu03"):
        world.node(name, gpus=2)
    for name in ("gpu02", "gpu03"):
        root.call("PATCH", f"nodes/{name}", {"intent": "cordoned"})
    only = world.submit(name="only", gpu=1, berth={"nodes": {"only": ["gpu02"]}})
    world.submit(name="either", gpu=1, berth={"nodes": {"only": ["gpu02", "gpu03"]}})
    world.submit(name="elsewhere", gpu=1, berth={"nodes": {"only": ["gpu03"]}})
    told = root.call("DELETE", f"{AT}?dry_run=true").json()["stranded"]
    assert told == [{"id": only.pk, "label": "alice/only#1", "vc": "vision"}]
    text = Browser(person("admin", ClusterRole.ADMIN)).get("/cluster/nodes/gpu02/remove").text
    assert "alice/only#1" in text
    assert "alice/either#1" not in text
    assert root.call("DELETE", AT).json()["stranded"] == told
    world.nodes.pop("gpu02")
    world.settle()
    only.refresh_from_db()
    assert (only.state, only.waiting_code) == ("waiting", "no_node")
    assert only.waiting_message == "none of the servers that it may run on is part of the cluster: gpu02"
    last = root.call("DELETE", "nodes/gpu03?dry_run=true").json()["stranded"]
    assert [one["label"] for one in last] == ["alice/either#1", "alice/elsewhere#1"]


def test_it_is_on_no_page_in_no_list_and_its_key_opens_nothing(world: World, root: Api) -> None:
    world.node("gpu01", gpus=2)
    node = world.node("gpu02", gpus=2)
    job = world.submit(gpu=2)
    root.call("DELETE", AT)
    assert not node.report()
    assert root.names("nodes", "name") == ["gpu01"]
    assert {row["node"] for row in root.get("gpus")["results"]} == {"gpu01"}
    assert [row["gpus"] for row in root.get("skus")] == [2]
    assert "gpu02" not in str(root.get("cluster")["physicalCluster"])
    assert [one["name"] for one in root.get("alerts") if one["name"] == "gpu02"] == []
    browser = Browser(person("admin", ClusterRole.ADMIN))
    for path in ("/cluster", "/cluster/nodes"):
        assert "gpu02" not in browser.get(path).html
    assert browser.get("/cluster/nodes/gpu02").status == 404
    assert root.call("DELETE", AT).status_code == 404
    world.nodes.pop("gpu02")
    world.settle()
    assert Job.objects.get(pk=job.pk).state == "running", "the others go on"


def test_it_may_join_again_under_its_name_with_another_key_and_the_same_cards(world: World, root: Api) -> None:
    world.node("gpu02", gpus=2)
    root.call("DELETE", AT)
    again = ScriptedNode("gpu02", gpus=2)
    assert again.report()
    assert [row["uuid"] for row in root.get("gpus")["results"]] == ["GPU-gpu02-0", "GPU-gpu02-1"]
    assert Gpu.objects.filter(present=False).count() == 2


def test_one_that_is_lost_is_removed_with_what_its_lost_tasks_hold(world: World, root: Api) -> None:
    world.node("gpu02", gpus=2)
    world.submit(gpu=1)
    world.settle()
    Node.objects.update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    assert TaskAttempt.objects.get().lost_at is not None
    assert root.call("DELETE", AT).status_code == 200
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    world.nodes.clear()
    world.settle()


def test_a_card_in_another_server_is_that_ones_and_what_ran_on_it_stays_where_it_was(world: World, root: Api) -> None:
    old, new = world.node("gpu01", gpus=2), world.node("gpu02", gpus=1)
    moved = old.inventory.gpus[1]
    new.inventory = replace(new.inventory, gpus=(*new.inventory.gpus, replace(moved, index=1)))
    assert new.report()
    new.accept()
    assert [row["node"] for row in root.get("gpus")["results"]] == ["gpu01", "gpu01", "gpu02"], "both report it"
    assert NodeEvent.objects.filter(node__name="gpu02", code="gpu_twice").count() == 1
    later = timezone.now() + timedelta(seconds=20)
    assert new.report(now=later)
    rows = root.get("gpus")["results"]
    assert [(row["node"], row["uuid"]) for row in rows] == [
        ("gpu01", "GPU-gpu01-0"), ("gpu02", "GPU-gpu02-0"), ("gpu02", "GPU-gpu01-1"),
    ]  # fmt: skip
    told = [(one.node.name, one.message) for one in NodeEvent.objects.filter(code="gpu_moved")]
    assert {name for name, _ in told} == {"gpu01", "gpu02"}
    assert all(message == "GPU 1 (GPU-gpu01-1) of gpu01 is in gpu02 now." for _, message in told)
    old.inventory = replace(old.inventory, gpus=old.inventory.gpus[:1])
    assert old.report(now=later)
    assert Gpu.objects.get(uuid="GPU-gpu01-1", present=True).node.name == "gpu02"

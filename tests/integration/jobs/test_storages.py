"""Storages that are taken away while a job is submitted, or while it waits."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from portal.accounts.models import AuditEntry
from portal.common.errors import Conflict
from portal.jobs.models import Job, Task
from portal.storages.models import Storage
from portal.storages.services.storages import storage_change, storage_create, storage_remove
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api

pytestmark = pytest.mark.django_db(transaction=True)
FILE: dict[str, Any] = {"extras": {"storages": [{"name": "data"}]}}


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=1, root="/mnt/data")
    storage_create(name="data", root="/mnt/data", vcs=[made.vc], must_be_mount=False, now=made.now, actor="root")
    return made


def test_a_job_that_lost_its_storage_while_it_waited_is_paused_when_it_would_start(world: World) -> None:
    world.submit(name="runs", **FILE)
    world.settle()
    job, other = world.submit(name="waits", **FILE), world.submit(name="behind")
    data, api = Storage.objects.get(name="data"), Api(world.user)
    storage_change(storage=data, changes={}, virtual_clusters=[], now=world.now, actor="root")
    assert Job.objects.get(name="runs").state == "running", "what has begun keeps it"
    world.nodes["gpu01"].finish()
    world.settle()
    assert dict(Job.objects.values_list("name", "state")) == {
        "runs": "succeeded", "waits": "waiting", "behind": "running",
    }  # fmt: skip
    told = api.get(f"jobs/{job.pk}/events")["results"][-1]
    assert told["code"] == "paused"
    assert told["message"].startswith("Paused: vision has no storage data any more; it has: none. Ask an administrator")
    storage_change(storage=data, changes={}, virtual_clusters=["vision"], now=world.now, actor="root")
    api.call("POST", f"jobs/{other.pk}/stop")
    api.call("POST", f"jobs/{job.pk}/resume")
    world.settle()
    world.settle()
    assert Job.objects.get(pk=job.pk).state == "running"


def test_what_lies_in_a_storage_is_not_exchanged_under_a_job(world: World) -> None:
    storage_change(
        storage=Storage.objects.get(name="data"), changes={"kind": "nfs", "export": "nas:/one"}, now=world.now,
        actor="root",
    )  # fmt: skip
    world.submit(name="runs", **FILE)
    with pytest.raises(Conflict, match="its place cannot change"):
        storage_change(
            storage=Storage.objects.get(name="data"), changes={"export": "nas:/two"}, now=world.now, actor="root"
        )
    assert Storage.objects.get(name="data").export == "nas:/one"


def test_a_storage_that_is_removed_while_a_job_is_judged_refuses_it_and_leaves_nothing(world: World) -> None:
    steps = ["removed", "judged"]

    def remove(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """With the first question after the one for storages, outside of the transaction that stores the job."""
        if steps[-1:] == ["removed"] and not connection.in_atomic_block:
            steps.pop()
            storage_remove(storage=Storage.objects.get(), now=world.now, actor="root")
        elif steps[-1:] == ["judged"] and "storages_storage" in sql:
            steps.pop()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(remove):
        answer = Api(world.user).call("POST", "jobs", job_file(**FILE), kind="text/yaml")
    assert not steps
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["path"], fault["code"]) == (400, "extras.storages[0].name", "unknown")
    assert fault["message"] == "vision has no storage data any more; it has: none"
    assert not Storage.objects.exists()
    assert [Job.objects.count(), Task.objects.count()] == [0, 0]
    assert not AuditEntry.objects.filter(action="job_submit").exists()

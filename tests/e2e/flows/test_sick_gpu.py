"""A GPU turns sick under a running job: an agent's own process reads it from NVIDIA's library (its double), and the
rest is what an administrator and the job's owner have of it. The kinds of sickness, each with its fence, are in
`tests/integration/hardware/test_sick_gpus.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.cluster.stack import Agent, Stack
from tests.support.gpu.machine import Machine
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until
from tests.support.services.migrated import sqlite_copy
from tests.support.services.services import Services

OFF_THE_BUS = 79


@pytest.fixture
def machine(services: Services) -> Machine:
    """A server's two GPUs."""
    return Machine(services.new_folder("gpus"))


@pytest.fixture
def user(services: Services, machine: Machine) -> Iterator[Person]:
    """Of a node whose agent reads these GPUs; tasks are plain processes there."""
    agents = [Agent(name="here", gpus="nvml", runtime="process", env=tuple(machine.env.items()))]
    database = sqlite_copy(services.new_folder("sqlite") / "berth.sqlite3")
    with closing(Stack(services, database_url=database, agents=agents)) as made:
        made.start()
        yield alice(made)


def test_a_gpu_with_a_hardware_error_loses_its_job_which_goes_on_beside_it_and_comes_back_with_a_reason(
    user: Person, machine: Machine
) -> None:
    with user.stack.client("root") as root:

        def gpus() -> dict[str, dict[str, Any]]:
            return {gpu["uuid"]: gpu for gpu in root.get("/nodes/here").json()["gpus"]}

        def held_by(job: int) -> str:
            return next((uuid for uuid, gpu in gpus().items() if gpu["holder"] and gpu["holder"]["job"] == job), "")

        job = user.run("while :; do sleep 0.2; done")
        user.wait(job, "running")
        sick = held_by(job)
        assert len(gpus()) == 2
        machine.raise_xid(sorted(gpus()).index(sick), OFF_THE_BUS)

        fenced = wait_until(lambda: not gpus()[sick]["usable"] and gpus()[sick], "the fence")
        assert fenced["fault"] == f"the node says: hardware error Xid {OFF_THE_BUS}"
        (alert,) = [one for one in root.get("/alerts").json() if one["code"] == "gpu_faulty"]
        assert f"hardware error Xid {OFF_THE_BUS}" in alert["message"]
        wait_until(lambda: held_by(job) not in ("", sick), "the job on the other GPU")
        user.wait(job, "running")
        first, _ = sorted(user.attempts(job), key=lambda one: one["number"])
        used_up = user.stack.sql("SELECT retries_counted FROM jobs_job WHERE id = %s", job)
        assert (first["end_reason"], used_up) == ("node_fault", [(0,)])

        assert root.post("/nodes/here/put-back", json={"reason": ""}).status_code == 400
        assert root.post("/nodes/here/put-back", json={"reason": "reset and tested"}).is_success
        assert [gpu["usable"] for gpu in gpus().values()] == [True, True]
        (entry,) = root.get("/audit?action=node.put_back").json()["results"]
        assert (entry["actor"], entry["target"], entry["after"]) == ("root", "here", {"reason": "reset and tested"})
        assert not [one for one in root.get("/alerts").json() if one["code"] == "gpu_faulty"]

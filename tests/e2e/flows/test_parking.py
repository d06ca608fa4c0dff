"""A parked job over portal, scheduler and agent: its made-up GPU is lent, and it goes on counting where it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest

from nodes.protocol.names import LABEL
from tests.support.cluster.stack import Agent, Stack
from tests.support.gpu.machine import Machine
from tests.support.images.images import PYTHON
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import sqlite_copy
from tests.support.services.services import Services

pytestmark = [pytest.mark.docker, pytest.mark.root]

TRAINER = "exec trainer --memory-mb 64 --host-us 20000"
CHEAP = {"hivedScheduler": {"jobPriorityClass": "oppo"}}


@pytest.fixture
def people(services: Services, running_docker: DockerEngine) -> Iterator[tuple[Person, Person]]:
    """Alice and Bob of research, which owns the server's one GPU and has jobs parked."""
    machine = Machine(services.new_folder("gpus"), gpus=1)
    running_docker.ensure_image(PYTHON)
    agents = [Agent(name="here", gpus="nvml", env=tuple(machine.env.items()))]
    database = sqlite_copy(services.new_folder("sqlite") / "berth.sqlite3")
    stack = Stack(services, database_url=database, docker_url=running_docker.url, agents=agents)
    with running_docker.with_gpus(machine), closing(stack):
        stack.start()
        with stack.client("root") as root:
            line = {"vc": "research", "cell_type": "H200", "count": 1}
            for path, body in {"/virtual-clusters/research": {"parking": True}, "/quotas": {"lines": [line]}}.items():
                answer = root.patch(path, json=body)
                assert answer.is_success, answer.text
        yield alice(stack), Person(stack, "bob", "research")
    running_docker.remove_containers()


def steps(person: Person, job: int) -> list[int]:
    return [int(line.split()[1]) for line in person.log_lines(job) if re.match(r"step \d+ ", line)]


def container(engine: DockerEngine, attempt: str) -> str:
    """Its id, as the Engine has it."""
    with engine.client() as client:
        (found,) = client.containers.list(all=True, filters={"label": f"{LABEL.ATTEMPT}={attempt}"})
        return str(found.id)


def asked(person: Person, job: int, what: str) -> None:
    answer = person.http.post(f"/jobs/{job}/{what}")
    assert answer.is_success, answer.text


def test_a_parked_job_lends_its_gpu_and_goes_on_counting_in_the_same_container(
    people: tuple[Person, Person], running_docker: DockerEngine
) -> None:
    owner, borrower = people
    job = owner.run(TRAINER, image=PYTHON)
    wait_until(lambda: len(steps(owner, job)) > 5, "its first steps")
    (before,) = owner.task_attempts(job)
    begun = container(running_docker, before["id"])

    asked(owner, job, "park")
    owner.wait_for(job, lambda one: one["parking"]["state"] == "parked")
    cheap = borrower.run(TRAINER, image=PYTHON, name="cheap", extras=CHEAP)
    wait_until(lambda: steps(borrower, cheap), "the borrower's first step")
    counted = steps(owner, job)
    wait_until(lambda: len(steps(borrower, cheap)) > 20, "more of its steps")
    lent = owner.job(job)
    assert (lent["state"], lent["parking"]["lent_to"]) == ("running", "bob/cheap#1")
    assert steps(owner, job) == counted

    asked(owner, job, "resume")
    owner.wait_for(job, lambda one: one["parking"]["state"] == "held")
    assert borrower.job(cheap)["state"] == "waiting"
    assert borrower.attempts(cheap)[0]["end_reason"] == "preempted"
    wait_until(lambda: len(steps(owner, job)) > len(counted), "its next step")
    assert all(later == earlier + 1 for earlier, later in pairwise(steps(owner, job)))
    (after,) = owner.task_attempts(job)
    assert (after["id"], after["gpus"]) == (before["id"], before["gpus"])
    assert len(owner.attempts(job)) == 1
    assert container(running_docker, before["id"]) == begun

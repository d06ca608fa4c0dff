"""An elastic job on real containers of two nodes: it grows into idle GPUs and gives them back, and nothing is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import mean

import pytest

from tests.e2e.flows.elastic_training import Training, draw
from tests.support.cluster.stack import Agent, Stack
from tests.support.images import images
from tests.support.people.person import Person, alice, carol
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


CPUS = (("BERTH_NODE_SIMULATED_CPUS", "16"),)
"""Enough for a task on each GPU, whatever this machine has."""


@pytest.fixture(scope="module")
def stack(services: Services, postgres: PostgresServer, running_docker: DockerEngine) -> Iterator[Stack]:
    """Two nodes of four GPUs, on which jobs may grow every second."""
    agents = [Agent(name="gpu01", ports="23000-23499", env=CPUS), Agent(name="gpu02", ports="23500-23999", env=CPUS)]
    url = postgres_copy(postgres, f"elastic_{len(services.stacks)}")
    made = Stack(
        services, database_url=url, docker_url=running_docker.url, agents=agents, env={"BERTH_GROW_EVERY": "1"}
    )
    with closing(made):
        made.start()
        yield made
    running_docker.remove_containers()


@pytest.fixture
def people(stack: Stack) -> Iterator[tuple[Person, Person, Person]]:
    """Alice and Bob of research, Carol of vision; each team owns as many GPUs as one node has."""
    everybody = (alice(stack), Person(stack, "bob", "research"), carol(stack))
    yield everybody
    for person in everybody:
        person.clear()


def test_a_bare_torchrun_grows_into_idle_gpus_and_shrinks_when_they_are_wanted(
    people: tuple[Person, Person, Person], running_docker: DockerEngine
) -> None:
    user, bob, others = people
    others.wait(others.run(SLEEP, gpu=4), "running")
    training = Training(user, running_docker.ensure_image(images.TORCH), least=1, most=3)
    training.wait_world(3)
    assert [user.log_lines(training.job, task)[0] for task in range(3)] == ["1", "3", "3"], "who was there at its start"
    wants = bob.run(SLEEP, gpu=1, instances=2)
    bob.wait(wants, "running")
    training.wait_world(2)
    training.finish()
    history = training.history()
    history.check()
    assert history.changes[-1].after.world == 2
    assert len(user.attempts(training.job)) == 1


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_no_step_is_lost_through_twenty_changes_of_size(
    people: tuple[Person, Person, Person], running_docker: DockerEngine
) -> None:
    user, bob, others = people
    others.wait(others.run(SLEEP, gpu=4), "running")
    training = Training(user, running_docker.ensure_image(images.TORCH), least=1, most=3)
    training.wait_world(3)
    given_back = []
    for taken in (2, 3) * 5:  # of two GPUs that are lent and one that idles
        began = time.monotonic()
        wants = bob.run(SLEEP, gpu=1, instances=taken)
        bob.wait(wants, "running")
        given_back.append(time.monotonic() - began)
        training.wait_world(4 - taken)
        bob.stop(wants)
        training.wait_world(3)
    training.finish()
    history = training.history()
    history.check()
    assert len(history.changes) >= 20
    assert len(user.attempts(training.job)) == 1
    pauses = {grew: [two.pause_s for two in history.changes if two.grew is grew] for grew in (True, False)}
    print(f"\n{len(history.changes)} changes, {len(history.steps)} steps, {history.repeated} of them done again")
    print(f"GPUs given back after {mean(given_back):.1f} s, {max(given_back):.1f} s at most")
    for grew, found in pauses.items():
        what = "it grew" if grew else "it shrank"
        print(f"no step while {what}: {mean(found):.1f} s, {max(found):.1f} s at most")
    if os.environ.get("BERTH_TEST_PICTURES"):
        draw(history, Path("test-artifacts/elastic.png"))

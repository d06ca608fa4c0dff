"""Stacks whose clocks are short, so that what takes minutes on a cluster takes seconds here."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import Person, alice
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

LOST_AFTER_S = 15
LEASE_STILL_S = 12
SHORT = {"BERTH_NODE_LOST_AFTER": str(LOST_AFTER_S), "BERTH_GRACE_PERIOD": "2"}
OF_AGENTS = (("BERTH_NODE_LEASE_STILL_S", str(LEASE_STILL_S)), ("BERTH_NODE_SIMULATED_CPUS", "8"))


@pytest.fixture(scope="module")
def shaky_stack(services: Services, postgres: PostgresServer, running_docker: DockerEngine) -> Iterator[Stack]:
    """PostgreSQL, Docker, two nodes; a node is lost after 15 s, a job folder is free after 12 s of stillness."""
    agents = [
        Agent(name="gpu01", ports="22000-22499", env=OF_AGENTS),
        Agent(name="gpu02", ports="22500-22999", env=OF_AGENTS),
    ]
    url = postgres_copy(postgres, f"shaky_{len(services.stacks)}")
    made = Stack(services, database_url=url, docker_url=running_docker.url, agents=agents, env=SHORT)
    with closing(made):
        made.start()
        yield made
    running_docker.remove_containers()


@pytest.fixture(scope="module")
def shaky_user(shaky_stack: Stack) -> Person:
    return alice(shaky_stack)

"""The portal behind PgBouncer in transaction mode, with the one setting that docs/admin/processes.md asks for."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.support.cluster.invariants import assert_log, counted, counting
from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import Person, alice
from tests.support.services.migrated import postgres_copy
from tests.support.services.pooler import Pooler
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

CONNECTIONS = 3
"""Fewer than the portal's processes are, so that each is handed on."""
ASKED = 60
COUNTING = counting(0.05, 20)


@pytest.fixture
def stack(services: Services, postgres: PostgresServer) -> Iterator[Stack]:
    name = f"pooled_{time.monotonic_ns()}"
    postgres_copy(postgres, name)
    pooler = Pooler(services.new_folder("pooler"), services.guard, postgres, connections=CONNECTIONS)
    agents = [Agent(name="here", runtime="process")]
    settings = {"BERTH_DATABASE_PREPARE": "0"}
    made = Stack(services, database_url=pooler.url(name), agents=agents, env=settings)
    with closing(pooler), closing(made):
        pooler.start()
        made.start()
        yield made


@pytest.mark.postgres
@pytest.mark.pooler
def test_jobs_are_submitted_planned_and_ended_over_connections_that_are_handed_on(stack: Stack) -> None:
    user = alice(stack)
    with ThreadPoolExecutor(6) as pool:
        jobs = list(pool.map(lambda number: user.run(*COUNTING, name=f"pooled{number}"), range(4)))
        answers = list(pool.map(lambda number: asked(user, jobs[number % 4]), range(ASKED)))
    assert answers == [200] * ASKED
    for job in jobs:
        assert user.wait(job, "succeeded")["retries"] == 0
        assert_log(user, job, counted(20))
    assert stack.sql("SELECT count(*) FROM jobs_taskattempt") == [(4,)]


def asked(user: Person, job: int) -> int:
    """The status of an answer for which a dozen statements are kept elsewhere."""
    return user.http.get(f"/jobs/{job}/tasks").status_code

"""The scheduler's faults on PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.reliability.faults.scheduling import SchedulerFaults
from tests.support.cluster.stack import Agent, Stack
from tests.support.services.migrated import postgres_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services


@pytest.fixture(scope="module")
def stack(services: Services, postgres: PostgresServer) -> Iterator[Stack]:
    agents = [Agent(name="here", runtime="process")]
    with closing(Stack(services, database_url=postgres_copy(postgres, "scheduler"), agents=agents)) as made:
        made.start()
        yield made


class TestOnPostgres(SchedulerFaults):
    pass

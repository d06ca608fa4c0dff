"""The scheduler's faults on SQLite."""

import pytest

from tests.reliability.faults.scheduling import SchedulerFaults
from tests.support.cluster.stack import Stack


@pytest.fixture(scope="module")
def stack(embedded_stack: Stack) -> Stack:
    return embedded_stack


class TestOnSqlite(SchedulerFaults):
    pass

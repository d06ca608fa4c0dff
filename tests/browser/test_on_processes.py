"""The browser's journeys on SQLite and the process runtime, as `make demo` starts them."""

import pytest

from tests.browser.journeys import BrowserJourneys
from tests.support.person import Person, alice
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def served(embedded_stack: Stack) -> Stack:
    return embedded_stack


@pytest.fixture(scope="module")
def user(served: Stack) -> Person:
    return alice(served)


class TestOnProcesses(BrowserJourneys):
    """Every journey."""

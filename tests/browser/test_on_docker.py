"""The browser's journeys on PostgreSQL, a real Docker Engine, and two nodes."""

import pytest

from tests.browser.journeys import BrowserJourneys
from tests.support.person import Person, alice
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def served(stack: Stack) -> Stack:
    return stack


@pytest.fixture(scope="module")
def user(served: Stack) -> Person:
    return alice(served)


class TestOnDocker(BrowserJourneys):
    """Every journey."""

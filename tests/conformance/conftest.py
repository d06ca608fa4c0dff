"""The originals of what lies in `tests/data`; where they are not, the tests of this folder are left out and counted."""

from pathlib import Path

import pytest

from tests.support.run.facts import originals


@pytest.fixture(scope="session")
def theirs() -> Path:
    folder = originals()
    assert folder
    return folder

"""A job that is off its GPU, as `berth` says it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from berth.cli.job_page import parking_words
from berth.model.jobs import Parking


@pytest.mark.parametrize(
    ("state", "words"),
    [("parking", "being parked"), ("parked", "parked"), ("wanted", "waiting for its GPU"), ("new", "new")],
)
def test_a_state_is_told_in_words(state: str, words: str) -> None:
    parking = Parking(
        state=state, since=datetime(2026, 3, 2, tzinfo=UTC), node="gpu01", parked_mb=1, cause="", fault="", lent_to=""
    )
    assert parking_words(parking) == words

"""What part of a run its charts show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from portal.jobs.models import TaskAttempt
from portal.metrics.overview import window_of


def test_a_reading_of_this_moment_lies_inside_though_a_point_begins_with_its_second() -> None:
    now = datetime(2026, 5, 4, 10, 0, 0, 500_000, UTC)
    window = window_of([TaskAttempt(created_at=now - timedelta(minutes=3))], now=now)
    assert window.first < now.timestamp() < window.end

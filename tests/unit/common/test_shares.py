"""What one user may have at once, and all together."""

from __future__ import annotations

import pytest

from portal.common.errors import Busy, TooManyAtOnce
from portal.common.shares import Share


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def share(clock: Clock | None = None) -> Share:
    return Share(
        each=lambda: 3, overall=5, lasts_s=lambda: 60, own="You have %(most)s.", full="Full.", clock=clock or Clock()
    )


def test_one_takes_no_more_than_the_own_share_and_all_no_more_than_there_is() -> None:
    seats = share()
    mine = [seats.take(1), seats.take(1, weight=2)]
    with pytest.raises(TooManyAtOnce, match="You have 3"):
        seats.take(1)
    seats.take(2, weight=2)
    with pytest.raises(Busy, match="Full"):
        seats.take(3)
    mine[1].give_back()
    mine[1].give_back()
    with seats.take(3, weight=2), pytest.raises(Busy):
        seats.take(1)
    seats.take(1, weight=2)


def test_a_seat_that_was_forgotten_ends_with_its_time() -> None:
    clock = Clock()
    seats = share(clock)
    seat = seats.take(1, weight=3)
    clock.now = 59.0
    with pytest.raises(TooManyAtOnce):
        seats.take(1)
    clock.now = 60.0
    assert seat.over
    seats.take(1, weight=3)

"""Concurrency limits, per user and overall. Counted per process, since they protect its threads and memory; what a
killed process held is free by itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Lock

from django.utils.translation import gettext

from portal.common.errors import Busy, TooManyAtOnce

Clock = Callable[[], float]


class Seat:
    """A slot that somebody holds until they give it back or its time is up; then it no longer counts, even if it was
    forgotten."""

    def __init__(self, share: Share, holder: int, weight: int, ends: float) -> None:
        self._share, self.holder, self.weight, self.ends = share, holder, weight, ends

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        return self.ends <= self._share.clock()

    def give_back(self) -> None:
        """Releases the slot; safe to call twice."""
        self._share.release(self)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


class Share:
    """Hands out seats. ``each``: limit per holder; ``overall``: limit of all, None for none. ``lasts_s``: a seat's
    longest life. ``own`` and ``full``: the messages on reaching the one or the other, marked for translation."""

    def __init__(
        self,
        *,
        each: Callable[[], int],
        overall: int | None = None,
        lasts_s: Callable[[], float] = lambda: float("inf"),
        own: str,
        full: str = "",
        clock: Clock = time.monotonic,
    ) -> None:
        self._each, self._overall, self._lasts_s = each, overall, lasts_s
        self._own, self._full, self.clock = own, full, clock
        self._seats: set[Seat] = set()
        self._lock = Lock()

    def take(self, holder: int, weight: int = 1) -> Seat:
        """Takes a seat of that weight. Raises TooManyAtOnce at the holder's own limit, Busy at the overall one."""
        now = self.clock()
        with self._lock:
            self._seats = {seat for seat in self._seats if seat.ends > now}
            held: Counter[int] = Counter()
            for seat in self._seats:
                held[seat.holder] += seat.weight
            if held[holder] + weight > self._each():
                raise TooManyAtOnce(gettext(self._own) % {"most": self._each()})
            if self._overall is not None and held.total() + weight > self._overall:
                raise Busy(gettext(self._full))
            seat = Seat(self, holder, weight, now + self._lasts_s())
            self._seats.add(seat)
        return seat

    def release(self, seat: Seat) -> None:
        """Removes the seat."""
        with self._lock:
            self._seats.discard(seat)

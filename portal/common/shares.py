"""So much at once: of one user, and of all together. Counted in this process, since what is shared are its threads and
its memory; what a killed process held is free by itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Lock

from django.utils.translation import gettext

from portal.common.errors import Busy, TooManyAtOnce

Clock = Callable[[], float]


class Seat:
    """A part that somebody holds until they give it back, or until its time is over: then it counts no more, also
    where it was forgotten."""

    def __init__(self, share: Share, holder: int, weight: int, ends: float) -> None:
        self._share, self.holder, self.weight, self.ends = share, holder, weight, ends

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        return self.ends <= self._share.clock()

    def give_back(self) -> None:
        """May be called again."""
        self._share.release(self)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


class Share:
    """``each``: what one holder may have at once; ``overall``: all of them, None for no bound. ``lasts_s``: how long a
    seat lasts at most. ``own`` and ``full`` are the sentences for who meets the one or the other, marked for
    translation."""

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
        """A seat of that weight. Raises TooManyAtOnce where the holder has all of the own ones, Busy where all are
        taken."""
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
        """Ends it."""
        with self._lock:
            self._seats.discard(seat)

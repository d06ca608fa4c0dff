"""Waiting for a condition with a deadline, in place of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None | bool],
    what: str,
    *,
    deadline_s: float = 30.0,
    every_s: float = 0.05,
    most_s: float = 0.0,
) -> T:
    """Call `condition` until its answer is true, and return that answer.

    It is asked every `every_s` seconds; with `most_s` less often the longer it takes: a tenth of the time that has
    passed is let pass in between, `most_s` at most. For questions that cost those who answer them something.

    Raises AssertionError, naming `what`, when `deadline_s` seconds have passed.
    """
    begin = time.monotonic()
    end = begin + deadline_s
    while True:
        answer = condition()
        if answer:
            return answer  # type: ignore[return-value]
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}; last answer: {answer!r}")
        time.sleep(max(every_s, min(most_s, (now - begin) / 10)))


def early_in_a_minute(*, left_s: float = 8.0) -> None:
    """Return with so much left of the clock's minute: tries are counted by it, and begin anew with the next."""
    left = 60 - time.time() % 60
    if left < left_s:
        time.sleep(left)

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
) -> T:
    """Call `condition` until its answer is true, and return that answer.

    Raises AssertionError, naming `what`, when `deadline_s` seconds have passed.
    """
    end = time.monotonic() + deadline_s
    while True:
        answer = condition()
        if answer:
            return answer  # type: ignore[return-value]
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}; last answer: {answer!r}")
        time.sleep(every_s)

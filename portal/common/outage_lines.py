"""Log filter for outages: one sentence each, repeated only after a while if it lasts."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from portal.common.outages import outage

AGAIN_S = 600.0
_VARYING = re.compile(r"'[^']*'|[0-9]+")
"""Times and quoted names, which differ between equal outages."""


class OutagesOnce(logging.Filter):
    """Replaces the traceback or library message of an outage by its sentence, and drops repetitions for ``AGAIN_S``.
    Other entries pass unchanged."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = _error_of(record)
        words = outage(error) if error is not None else ""
        if not words:
            return True
        key, now = _VARYING.sub("", words), self._monotonic()
        if now - self._told.get(key, -AGAIN_S) < AGAIN_S:
            return False
        self._told = {one: at for one, at in self._told.items() if now - at < AGAIN_S} | {key: now}
        record.msg, record.args, record.exc_info, record.exc_text = words, None, None, None
        return True


def _error_of(record: logging.LogRecord) -> BaseException | None:
    """The exception that was logged with the record, or is among its arguments."""
    if record.exc_info and record.exc_info[1] is not None:
        return record.exc_info[1]
    values = record.args.values() if isinstance(record.args, dict) else record.args or ()
    return next((one for one in values if isinstance(one, BaseException)), None)

"""Fail-points: named places where a test has this process killed, to show that nothing is lost there.

``BERTH_FAILPOINT=<name>`` (or ``<name>:<n>`` for the n-th pass) in the process's environment arms one;
``sql:<part>:<n>`` stands for the n-th SQL statement of a part of the work.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


class Failpoint:
    """The one fail-point that is armed, if any."""

    def __init__(self, text: str) -> None:
        self._name, self._left = "", 0
        self.arm(text)

    def arm(self, text: str) -> None:
        """Arms one fail-point, replacing any other; an empty text disarms."""
        found = re.fullmatch(r"(.*?)(?::(\d+))?", text)
        assert found is not None
        self._name, self._left = found[1], int(found[2] or 1)

    def passes(self, name: str) -> None:
        """Sends SIGKILL to this process if armed by that name; else does nothing."""
        if self._name and name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def statements(self, part: str) -> Iterator[None]:
        """Passes the fail-point ``sql:<part>`` before each SQL statement inside the block."""
        if self._name != f"sql:{part}":
            yield
            return

        def before(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
            self.passes(f"sql:{part}")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(before):
            yield


_FAILPOINT = Failpoint(os.environ.get("BERTH_FAILPOINT", ""))
failpoint, failpoint_arm, failpoint_statements = _FAILPOINT.passes, _FAILPOINT.arm, _FAILPOINT.statements

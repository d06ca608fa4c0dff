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

_armed = ""
_left = 0


def failpoint_arm(text: str) -> None:
    """Arms one fail-point, replacing any other; an empty text disarms."""
    global _armed, _left
    found = re.fullmatch(r"(.*?)(?::(\d+))?", text)
    assert found is not None
    _armed, _left = found[1], int(found[2] or 1)


def failpoint(name: str) -> None:
    """Sends SIGKILL to this process if armed by that name; else does nothing."""
    global _left
    if _armed and name == _armed:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def failpoint_statements(part: str) -> Iterator[None]:
    """Passes the fail-point ``sql:<part>`` before each SQL statement inside the block."""
    if _armed != f"sql:{part}":
        yield
        return

    def before(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        failpoint(f"sql:{part}")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(before):
        yield


failpoint_arm(os.environ.get("BERTH_FAILPOINT", ""))

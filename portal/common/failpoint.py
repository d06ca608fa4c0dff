"""A named place at which a test may have this very process killed, to show that nothing is lost there.

``BERTH_FAILPOINT=<name>`` (or ``<name>:<n>`` for its n-th passing) in the environment of that process arms it.
"""

from __future__ import annotations

import os
import signal

_armed, _, _count = os.environ.get("BERTH_FAILPOINT", "").partition(":")
_left = int(_count or 1)


def failpoint(name: str) -> None:
    """Without effect unless armed by name; then SIGKILL to ourselves."""
    global _left
    if _armed and name == _armed:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

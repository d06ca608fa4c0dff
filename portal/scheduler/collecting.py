"""Python's collector of cyclic garbage in the scheduler's process: it works between cycles and not in them.

A cycle allocates tens of thousands of objects, which makes the collector look at them, and again and again at the
hundreds of thousands that live on from cycle to cycle (the engine, the rows): a quarter of a second at a time. Nearly
nothing of it is garbage.
"""

from __future__ import annotations

import gc
import time

FULL_S = 60.0
"""So seldom everything is looked at. What has lived through it is then out of sight (frozen) until the next time."""

_full_at = -FULL_S


def collect_between() -> None:
    """Called after each cycle: what the cycle has left, and once a minute all."""
    global _full_at
    gc.disable()
    if (now := time.monotonic()) - _full_at < FULL_S:
        gc.collect(1)
        return
    _full_at = now
    gc.unfreeze()
    gc.collect()
    gc.freeze()

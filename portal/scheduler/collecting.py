"""Runs Python's cyclic garbage collector between scheduling cycles and not in them.

A cycle allocates tens of thousands of objects, which triggers the collector; it then traverses again and again the
hundreds of thousands that live on (the engine, the rows): a quarter of a second at a time. Almost none of it is
garbage.
"""

from __future__ import annotations

import gc
import time

FULL_S = 60.0
"""Seconds between full collections. What survives one is then ignored (frozen) until the next."""


class Collector:
    """Collects after each cycle what it left, and once a minute everything."""

    def __init__(self) -> None:
        self.full_at = -FULL_S

    def collect(self) -> None:
        """To be called between cycles."""
        gc.disable()
        if (now := time.monotonic()) - self.full_at < FULL_S:
            gc.collect(1)
            return
        self.full_at = now
        gc.unfreeze()
        gc.collect()
        gc.freeze()

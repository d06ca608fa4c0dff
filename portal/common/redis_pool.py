"""Connections to Redis for Django's cache."""

from __future__ import annotations

from functools import cache
from typing import Any

from redis import ConnectionPool


class KeptPool:
    """One pool for each address in a process. Django makes a cache of its own for every request under ASGI, and would
    open a connection for each."""

    @staticmethod
    @cache
    def from_url(url: str, **options: Any) -> ConnectionPool:
        """The pool of this address."""
        return ConnectionPool.from_url(url, **options)

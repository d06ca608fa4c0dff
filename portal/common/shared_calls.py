"""Coalesces concurrent equal calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class SharedCalls(Generic[Answer]):
    """Callers who ask while an answer is made, or within ``for_s`` seconds after, share it. Keeps the newest ``most``
    answers, and none that ``worth`` rejects. For one event loop."""

    def __init__(self, *, for_s: float, most: int, worth: Callable[[Answer], bool] = lambda answer: True) -> None:
        self._for_s, self._most, self._worth = for_s, most, worth
        self._calls: dict[Hashable, asyncio.Future[Answer]] = {}

    async def get(self, key: Hashable, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer for ``key``, made by ``call`` if needed. Raises what that raises."""
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = asyncio.ensure_future(call())
            known.add_done_callback(lambda done: self._made(key, done))
            while len(self._calls) > self._most:
                del self._calls[next(iter(self._calls))]
        return await asyncio.shield(known)  # a cancelled caller must not cancel it for the others

    def _made(self, key: Hashable, done: asyncio.Future[Answer]) -> None:
        if done.cancelled() or done.exception() is not None or not self._worth(done.result()):
            self._forget(key, done)
        else:
            done.get_loop().call_later(self._for_s, self._forget, key, done)

    def _forget(self, key: Hashable, done: asyncio.Future[Answer]) -> None:
        if self._calls.get(key) is done:
            del self._calls[key]

"""What many ask for at once is worked out once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class SharedCalls(Generic[Answer]):
    """Whoever asks while the answer is made gets the same one, and so does who asks within ``for_s`` seconds. At most
    ``most`` answers are kept, the newest; one that ``worth`` does not like is kept for nobody. Of one event loop."""

    def __init__(self, *, for_s: float, most: int, worth: Callable[[Answer], bool] = lambda answer: True) -> None:
        self._for_s, self._most, self._worth = for_s, most, worth
        self._calls: dict[Hashable, asyncio.Future[Answer]] = {}

    async def get(self, key: Hashable, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to ``key``, which ``call`` makes. Raises what it raises."""
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = asyncio.ensure_future(call())
            known.add_done_callback(lambda done: self._made(key, done))
            while len(self._calls) > self._most:
                del self._calls[next(iter(self._calls))]
        return await asyncio.shield(known)  # who leaves does not end it for the others

    def _made(self, key: Hashable, done: asyncio.Future[Answer]) -> None:
        if done.cancelled() or done.exception() is not None or not self._worth(done.result()):
            self._forget(key, done)
        else:
            done.get_loop().call_later(self._for_s, self._forget, key, done)

    def _forget(self, key: Hashable, done: asyncio.Future[Answer]) -> None:
        if self._calls.get(key) is done:
            del self._calls[key]

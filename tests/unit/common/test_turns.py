"""Who is worked on first when more ask than can be answered at once."""

from __future__ import annotations

import asyncio

import pytest

from portal.common.turns import Turns

LONG_S = 3600.0


class Work:
    """Pieces of work that begin when they have a turn and end when they are told to."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begun: list[int] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._over: dict[int, asyncio.Event] = {}

    def ask(self, *numbers: int) -> None:
        for number in numbers:
            self._over[number] = asyncio.Event()
            self._tasks[number] = asyncio.create_task(self._do(number))

    async def end(self, number: int) -> None:
        self._over[number].set()
        await self._tasks[number]
        await settled()

    async def leave(self, number: int) -> None:
        self._tasks[number].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._tasks[number]
        await settled()

    async def _do(self, number: int) -> None:
        async with self._turns.turn():
            self.begun.append(number)
            await self._over[number].wait()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_at_a_time_in_the_order_in_which_they_came() -> None:
    work = Work(Turns(2, LONG_S))
    work.ask(1, 2, 3, 4)
    await settled()
    assert work.begun == [1, 2]
    await work.end(2)
    assert work.begun == [1, 2, 3]
    await work.end(1)
    assert work.begun == [1, 2, 3, 4]


async def test_one_that_takes_long_holds_nobody_up_and_gives_its_place_back_once() -> None:
    work = Work(Turns(1, 0.5))
    work.ask(1, 2)
    async with asyncio.timeout(10):
        while work.begun != [1, 2]:
            await asyncio.sleep(0.001)
    work.ask(3, 4)
    await work.end(1)
    assert work.begun == [1, 2]
    await work.end(2)
    assert work.begun == [1, 2, 3]


async def test_whoever_leaves_gives_the_place_to_the_next() -> None:
    work = Work(Turns(1, LONG_S))
    work.ask(1, 2, 3)
    await settled()
    await work.leave(2)
    assert work.begun == [1]
    await work.leave(1)
    assert work.begun == [1, 3]

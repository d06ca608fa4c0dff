"""What many ask for at once is worked out once, and nobody's leaving or failing is anybody else's."""

from __future__ import annotations

import asyncio

import pytest

from portal.common.shared_calls import SharedCalls


class Work:
    """Answers with the number of the call; ``open`` lets it."""

    def __init__(self) -> None:
        self.calls, self.open = 0, asyncio.Event()

    async def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        await self.open.wait()
        return number


async def test_a_hundred_who_ask_at_once_or_soon_after_share_one_call() -> None:
    shared, work = SharedCalls[int](for_s=60, most=2), Work()
    asked = [asyncio.create_task(shared.get("a", work)) for _ in range(100)]
    await asyncio.sleep(0)
    asked.pop().cancel()
    work.open.set()
    assert set(await asyncio.gather(*asked)) == {1}
    assert await shared.get("a", work) == 1
    assert [await shared.get(key, work) for key in ("b", "c", "a")] == [2, 3, 4], "the oldest are forgotten"


async def test_an_answer_that_is_old_or_worth_nothing_is_made_anew() -> None:
    work = Work()
    work.open.set()
    brief, picky = SharedCalls[int](for_s=0, most=9), SharedCalls[int](for_s=60, most=9, worth=lambda one: one > 3)
    for number in (1, 2):
        assert await brief.get("a", work) == number
        await asyncio.sleep(0.01)
    assert [await picky.get("a", work) for _ in range(3)] == [3, 4, 4]


async def test_a_failure_is_told_to_all_who_wait_and_kept_for_nobody() -> None:
    shared = SharedCalls[int](for_s=60, most=9)

    async def fail() -> int:
        await asyncio.sleep(0)
        raise OSError("away")

    asked = await asyncio.gather(*(shared.get("a", fail) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in asked] == [OSError] * 3
    work = Work()
    work.open.set()
    assert await shared.get("a", work) == 1


async def test_who_asks_may_leave(recwarn: pytest.WarningsRecorder) -> None:
    shared, work = SharedCalls[int](for_s=60, most=9), Work()
    first = asyncio.create_task(shared.get("a", work))
    await asyncio.sleep(0)
    first.cancel()
    work.open.set()
    assert (await shared.get("a", work), work.calls) == (1, 1)
    assert not recwarn.list

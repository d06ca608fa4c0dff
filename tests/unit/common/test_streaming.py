"""Long answers, piece by piece."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest

from portal.common.shares import Share
from portal.common.streaming import Download


@pytest.fixture
def one_each() -> Share:
    return Share(each=lambda: 1, own="No more than %(most)s.")


class Pieces:
    """Chunks, and in which threads they were made."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self.threads: list[int] = []

    def made(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.threads.append(threading.get_ident())
            yield chunk


def always() -> bool:
    return True


def read(answer: Download) -> bytes:
    async def whole() -> bytes:
        return b"".join([chunk async for chunk in cast(AsyncIterator[bytes], answer.streaming_content)])

    found = asyncio.run(whole())
    answer.close()
    return found


@pytest.mark.parametrize("chunks", [(), (b"one",), (b"one", b"two"), (b"one", b"two", b"three")])
@pytest.mark.parametrize("ahead", [True, False])
def test_all_of_it_is_sent_and_the_seat_given_back(one_each: Share, chunks: tuple[bytes, ...], ahead: bool) -> None:
    for _ in range(2):
        assert read(Download(Pieces(*chunks).made(), seat=one_each.take(1), still=always, ahead=ahead)) == b"".join(
            chunks
        )


def test_a_short_one_is_made_where_it_is_asked_for(one_each: Share) -> None:
    pieces = Pieces(b"one")
    answer = Download(pieces.made(), seat=one_each.take(1), still=always, ahead=True)
    assert pieces.threads == [threading.get_ident()]
    assert read(answer) == b"one"


def test_the_end_of_a_long_one_waits_until_it_is_read(one_each: Share) -> None:
    pieces = Pieces(*[b"x"] * 9)
    answer = Download(pieces.made(), seat=one_each.take(1), still=always, ahead=True)
    assert len(pieces.threads) == 2
    assert read(answer) == b"x" * 9
    assert threading.get_ident() not in pieces.threads[2:]


def test_a_beginning_that_cannot_be_read_holds_no_seat(one_each: Share) -> None:
    def broken() -> Iterator[bytes]:
        raise OSError("gone")
        yield b""

    with pytest.raises(OSError, match="gone"):
        Download(broken(), seat=one_each.take(1), still=always, ahead=True)
    one_each.take(1)


def test_one_whose_seat_is_over_is_not_to_go_on() -> None:
    now = 0.0
    share = Share(each=lambda: 1, lasts_s=lambda: 60, own="", clock=lambda: now)
    answer = Download(Pieces().made(), seat=share.take(1), still=always)
    assert asyncio.run(answer.asked()) is True
    now = 60.0
    assert asyncio.run(answer.asked()) is False
    answer.close()

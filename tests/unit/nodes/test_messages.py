"""Messages as they travel: what cannot be read is refused as such, whatever is wrong with it."""

from __future__ import annotations

import msgspec
import pytest

from nodes.protocol.messages import ContainerReport, Order, StorageWish, decode, encode
from nodes.protocol.parking import GpuState, GpuWish

WISH = StorageWish(name="data", root="/mnt/data")


def test_a_message_comes_back_as_it_was() -> None:
    assert decode(encode(WISH), StorageWish) == WISH


@pytest.mark.parametrize("body", [b"", b"{", b'{"name": 5}', b'{"name": "\xff", "root": "/"}', b"\xff\xfe"])
def test_what_is_no_message_is_refused_as_one_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(body, StorageWish)


def test_a_neighbouring_release_that_knows_no_parking_is_understood() -> None:
    order = decode(b'{"attempt": "a", "phase": "run", "spec_hash": "1", "since": 1}', Order)
    report = decode(b'{"attempt": "a", "state": "running", "spec_hash": "1", "generation": 1}', ContainerReport)
    assert (order.turn, order.gpu) == (0, GpuWish.HOLD)
    assert (report.gpu, report.turn, report.parked_mb, report.fault) == (GpuState.HELD, 0, 0, None)

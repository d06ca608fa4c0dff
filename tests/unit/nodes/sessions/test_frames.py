"""Frames: whatever the two sides say to each other arrives as it was said, and nothing else does."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.protocol.envelope import EnvelopeForged, NodeKey
from nodes.protocol.sessions import WINDOW, FrameKind, SessionBroken, SessionSide, secret_make, secret_open, size_encode

KINDS = st.sampled_from([FrameKind.DATA, FrameKind.ERRORS, FrameKind.FINISH, FrameKind.ANSWER, FrameKind.ALIVE])


def sides() -> tuple[SessionSide, SessionSide]:
    secret = secrets.token_bytes(32)
    return SessionSide(secret, node=False), SessionSide(secret, node=True)


@given(st.lists(st.tuples(st.booleans(), KINDS, st.binary(max_size=200))))
def test_both_sides_read_what_the_other_one_said_in_order(said: list[tuple[bool, FrameKind, bytes]]) -> None:
    portal, node = sides()
    for by_portal, kind, payload in said:
        speaker, listener = (portal, node) if by_portal else (node, portal)
        entry, sealed = speaker.seal(kind, payload)
        frame = listener.open(entry.encode(), sealed)
        assert (frame.kind, frame.payload) == (kind, payload)


@given(st.binary(max_size=100), st.integers(min_value=0), st.integers(min_value=0, max_value=7))
def test_a_changed_bit_is_never_taken(payload: bytes, at: int, bit: int) -> None:
    portal, node = sides()
    entry, sealed = portal.seal(FrameKind.DATA, payload)
    changed = bytearray(sealed)
    changed[at % len(changed)] ^= 1 << bit
    with pytest.raises(SessionBroken):
        node.open(entry.encode(), bytes(changed))


def test_frames_out_of_order_of_ones_own_or_of_another_session_are_refused() -> None:
    secret = secrets.token_bytes(32)
    portal, other = SessionSide(secret, node=False), SessionSide(secret, node=True)
    (one, first), (two, second) = portal.seal(FrameKind.DATA, b"1"), portal.seal(FrameKind.DATA, b"2")
    own = other.seal(FrameKind.DATA, b"1")[1]
    stranger = sides()[0].seal(FrameKind.DATA, b"1")[1]
    for entry, sealed in ((two, second), (one, second), (two, first), (one, own), (one, stranger)):
        with pytest.raises(SessionBroken):
            SessionSide(secret, node=True).open(entry.encode(), sealed)
    assert SessionSide(secret, node=True).open(one.encode(), first).payload == b"1"


def test_the_window_fills_and_empties_by_what_the_other_side_took() -> None:
    portal, node = sides()
    assert portal.room == WINDOW
    sent = portal.seal(FrameKind.DATA, bytes(1000))
    assert portal.room == WINDOW - 1000
    node.open(sent[0].encode(), sent[1])
    entry, sealed = node.take(600)
    portal.open(entry.encode(), sealed)
    assert (portal.room, portal.acknowledged) == (WINDOW - 400, 600)


def test_who_sends_more_than_the_window_or_takes_more_than_was_sent_is_cut_off() -> None:
    portal, node = sides()
    entry, sealed = portal.seal(FrameKind.DATA, bytes(WINDOW + 1))
    with pytest.raises(SessionBroken, match="more bytes than may be under way"):
        node.open(entry.encode(), sealed)
    portal, node = sides()
    entry, sealed = node.take(1)
    with pytest.raises(SessionBroken, match="more bytes taken than were sent"):
        portal.open(entry.encode(), sealed)


def test_a_size_is_kept_within_what_a_terminal_can_have() -> None:
    portal, node = sides()
    entry, sealed = portal.seal(FrameKind.RESIZE, size_encode(0, 10**9))
    assert node.open(entry.encode(), sealed).size == (1, 65535)
    entry, sealed = portal.seal(FrameKind.RESIZE, b"123")
    with pytest.raises(SessionBroken):
        _ = node.open(entry.encode(), sealed).size


def test_a_secret_is_for_one_nodes_key() -> None:
    key, other = NodeKey.generate(), NodeKey.generate()
    secret, sealed = secret_make(key.public)
    assert secret_open(key, sealed) == secret
    with pytest.raises(EnvelopeForged):
        secret_open(other, sealed)

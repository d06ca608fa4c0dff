"""What a hostile server says in a session that nobody reads as it comes: of proofs and deletions."""

from __future__ import annotations

import threading
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from nodes.protocol.envelope import envelope_open
from nodes.protocol.messages import decode, encode
from nodes.protocol.names import session_requests, session_streams
from nodes.protocol.sessions import (
    CHUNK,
    FrameKind,
    SessionAnswer,
    SessionEnd,
    SessionFault,
    SessionRequest,
    SessionSide,
    secret_open,
)
from tests.integration.files.test_deleting import asked, ended, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.files.conftest import Running
    from tests.support.cluster.scripted_node import ScriptedNode

pytestmark = pytest.mark.django_db(transaction=True)


def _voice(client: Any, node: ScriptedNode, text: str) -> Callable[..., None]:
    """What says a frame to whoever sent this request."""
    now_ms = int(time.time() * 1000)
    public = settings.PORTAL_KEY.public
    body = envelope_open(text, public=public, sender="portal", to=node.name, kind="session", now_ms=now_ms)
    request = decode(body, SessionRequest)
    side = SessionSide(secret_open(node.key, request.secret), node=True)
    _, up = session_streams(node.name, request.session)

    def say(kind: FrameKind, payload: bytes = b"") -> None:
        entry, data = side.seal(kind, payload)
        client.xadd(up, {"frame": data}, id=entry)

    return say


@contextmanager
def liar(node: ScriptedNode, lie: Callable[[Any, threading.Event], None]) -> Iterator[None]:
    """The node, which answers each request with a lie."""
    ended = threading.Event()
    client = redis.Redis.from_url(settings.REDIS_URL)

    def run() -> None:
        last: Any = b"0-0"
        while not ended.is_set():
            found: Any = client.xread({session_requests(node.name): last}, block=50)
            for entry, fields in found[0][1] if found else ():
                last = entry
                lie(_voice(client, node, fields[b"request"].decode()), ended)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def nul(say: Any, _: threading.Event) -> None:
    say(FrameKind.END, encode(SessionEnd(fault=SessionFault.AWAY, message="\0" + "x" * 5000)))


def endless(say: Any, ended: threading.Event) -> None:
    say(FrameKind.ANSWER, encode(SessionAnswer(kind="file", size=64)))
    for _ in range(400):
        if ended.wait(0.005):
            return
        say(FrameKind.DATA, b"x" * CHUNK)
    say(FrameKind.END, encode(SessionEnd()))


def alive(say: Any, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        say(FrameKind.ALIVE)


def test_a_text_that_no_database_keeps_holds_no_proof_up(cluster: Running) -> None:
    from portal.storages.proving import storages_prove

    second = cluster.world.node("gpu02", gpus=1, root=str(cluster.root))
    with cluster.door(), liar(second, nul):
        assert storages_prove(now=timezone.now()) == 1
    (said,) = second.row.ties.values()
    assert said["proof"]["result"] == "untried"


def test_who_sends_more_than_was_asked_for_has_not_seen_it_and_fills_no_memory(cluster: Running) -> None:
    from portal.storages.proving import storages_prove

    second = cluster.world.node("gpu02", gpus=1, root=str(cluster.root))
    with cluster.door(), liar(second, endless):
        tracemalloc.start()
        assert storages_prove(now=timezone.now()) == 1
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    (said,) = second.row.ties.values()
    assert said["proof"]["result"] != "seen"
    assert peak < 8 << 20


def test_a_text_that_no_database_keeps_holds_no_deletion_up(cluster: Running) -> None:
    ended(cluster)
    with liar(cluster.node, nul):
        assert asked(cluster).failures == 1
    assert kept(cluster).fault.startswith("\ufffdxxx")


def test_who_says_for_ever_that_it_lives_takes_a_part_of_a_round_of_deletions_once(
    cluster: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.files import deleting
    from portal.files.selectors import folders_due

    monkeypatch.setattr(deleting, "TOGETHER_S", 1.0)
    ended(cluster)
    folders = folders_due(now=timezone.now(), limit=1)
    monkeypatch.setattr(deleting, "folders_due", lambda **_: folders * 5)
    began = time.monotonic()
    with liar(cluster.node, alive):
        deleting.folders_expire(now=timezone.now())
        took = time.monotonic() - began
    assert took < 4
    assert kept(cluster).failures == 1

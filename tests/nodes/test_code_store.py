"""Fetching code: what breaks off, what arrives or lies damaged, what is gone, and room for the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.code import TRIES, CodeAway, CodeStore
from nodes.protocol import Cause, Code, Progress
from nodes.runtimes.base import Cancelled, Failed
from tests.nodes.code_server import CodeServer
from tests.support.archives import packed
from tests.support.tls import Authority

NOISE = packed({"noise": os.urandom(600_000)})


@pytest.fixture
def server() -> Iterator[CodeServer]:
    made = CodeServer()
    yield made
    made.close()


class Node:
    """Who fetches: `heard` is what is told of it meanwhile."""

    def __init__(self, folder: Path, server: CodeServer, limit: int = 1 << 30, authority: Path | None = None) -> None:
        self.folder, self.server = folder, server
        self.store = CodeStore(folder, limit, authority)
        self.heard: list[Progress] = []
        self.stopped = False

    def fetch(self, code: Code) -> bytes:
        address = self.server.url(code)
        with self.store.open(
            code, address=lambda: address, progress=self.heard.append, cancelled=lambda: self.stopped
        ) as file:
            return file.read()

    def failed(self, code: Code) -> Failed:
        with pytest.raises(Failed) as raised:
            self.fetch(code)
        assert raised.value.cause is Cause.CODE_MISSING
        return raised.value


@pytest.fixture
def node(tmp_path: Path, server: CodeServer) -> Node:
    return Node(tmp_path / "code", server)


def test_a_download_that_breaks_off_goes_on_where_it_was(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.cut_at = 300_000
    with pytest.raises(CodeAway, match="broke off"):
        node.fetch(code)
    server.cut_at = None
    heir = Node(node.folder, server)
    assert heir.fetch(code) == NOISE, "also after the agent was started again"
    assert 0 < server.asked[-1] <= 300_000
    percents = [progress.percent or 0 for progress in [*node.heard, *heir.heard]]
    assert percents == sorted(percents)
    assert percents[-1] == 100


def test_a_portal_that_cannot_resume_sends_all_of_it_again(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.cut_at = 300_000
    with pytest.raises(CodeAway):
        node.fetch(code)
    server.cut_at, server.resumes = None, False
    assert node.fetch(code) == NOISE


def test_what_was_fetched_is_asked_for_no_more_by_several_at_once(node: Node, server: CodeServer) -> None:
    code, found = server.add(NOISE), list[bytes]()
    threads = [threading.Thread(target=lambda: found.append(node.fetch(code))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [NOISE] * 4
    assert server.asked == [0]


@pytest.mark.parametrize("status", [403, 404, 500, 503, 301])
def test_a_portal_that_does_not_give_it_now_is_asked_again(node: Node, server: CodeServer, status: int) -> None:
    code = server.add(NOISE)
    server.status = status
    with pytest.raises(CodeAway, match=str(status)):
        node.fetch(code)
    server.status = 0
    assert node.fetch(code) == NOISE


def test_a_portal_that_is_not_there_is_away(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    with pytest.raises(CodeAway, match="cannot be reached"):
        node.store.open(
            code, address=lambda: "http://127.0.0.1:9/code", progress=node.heard.append, cancelled=lambda: False
        )
    with pytest.raises(CodeAway, match="waits for the address"):
        node.store.open(code, address=lambda: None, progress=node.heard.append, cancelled=lambda: False)


def test_a_portal_is_known_by_the_authority_of_its_certificate_and_no_other(tmp_path: Path) -> None:
    own = Authority(tmp_path, "own")
    server = CodeServer(own.sign("portal"))
    try:
        code = server.add(NOISE)
        for authority in (None, Authority(tmp_path, "other").ca):
            with pytest.raises(CodeAway, match="cannot be reached"):
                Node(tmp_path / "code", server, authority=authority).fetch(code)
        assert server.asked == []
        assert Node(tmp_path / "code", server, authority=own.ca).fetch(code) == NOISE
    finally:
        server.close()


def test_code_that_arrives_damaged_is_fetched_some_times_and_never_given(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.damage = True
    assert "another content" in node.failed(code).message
    assert server.asked == [0] * TRIES
    assert list(node.folder.iterdir()) == []


def test_what_was_damaged_on_the_node_is_fetched_anew(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    node.fetch(code)
    (node.folder / code.sha256).write_bytes(b"rotten")
    assert node.fetch(code) == NOISE
    assert len(server.asked) == 2


def test_code_that_the_portal_has_no_more_is_missing_for_good(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.status = 410
    assert "submit it again" in node.failed(code).message


def test_nobody_waits_for_a_download_that_is_not_wanted_any_more(node: Node, server: CodeServer) -> None:
    code, node.stopped = server.add(NOISE), True
    with pytest.raises(Cancelled):
        node.fetch(code)


def test_what_was_unused_for_longest_makes_room(tmp_path: Path, server: CodeServer) -> None:
    node = Node(tmp_path / "code", server, limit=250_000)
    codes = [server.add(packed({"noise": os.urandom(100_000)})) for _ in range(3)]
    for age, code in enumerate(codes[:2]):
        node.fetch(code)
        os.utime(node.folder / code.sha256, (age, age))
    node.fetch(codes[2])
    assert {path.name for path in node.folder.iterdir()} == {codes[1].sha256, codes[2].sha256}

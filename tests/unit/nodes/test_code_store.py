"""Fetching code: what breaks off, what arrives or lies damaged, what is gone, and room for the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nodes.agent.runtimes.base import AttemptFailed, Cancelled
from nodes.agent.storage.code_cache import TRIES, CodeCache, CodeUnavailable
from nodes.protocol.messages import Code, Progress
from nodes.protocol.states import Cause
from tests.support.run.archives import packed
from tests.support.services.code_server import CodeServer
from tests.support.services.processes import free_port
from tests.support.services.tls import Authority

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
        self.store = CodeCache(folder, limit, authority)
        self.heard: list[Progress] = []
        self.stopped = False

    def fetch(self, code: Code) -> bytes:
        address = self.server.url(code)
        with self.store.open(
            code, address=lambda: address, progress=self.heard.append, cancelled=lambda: self.stopped
        ) as file:
            return file.read()

    def failed(self, code: Code) -> AttemptFailed:
        with pytest.raises(AttemptFailed) as raised:
            self.fetch(code)
        assert raised.value.cause is Cause.CODE_MISSING
        return raised.value


@pytest.fixture
def node(tmp_path: Path, server: CodeServer) -> Node:
    return Node(tmp_path / "code", server)


def test_a_download_that_breaks_off_goes_on_where_it_was(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.cut_at = 300_000
    with pytest.raises(CodeUnavailable, match="broke off"):
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
    with pytest.raises(CodeUnavailable):
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
    with pytest.raises(CodeUnavailable, match=str(status)):
        node.fetch(code)
    server.status = 0
    assert node.fetch(code) == NOISE


def test_a_portal_that_is_not_there_is_away(node: Node, server: CodeServer) -> None:
    code = server.add(NOISE)
    for address, why in (
        ("http://127.0.0.1:1/code", "Nothing listens where the portal at 127.0.0.1:1 should: start it"),
        ("http://no..name/code", "There is no server named no..name: correct BERTH_URL of the portal"),
    ):
        with pytest.raises(CodeUnavailable, match=f"^{why}"):
            node.store.open(code, address=partial(str, address), progress=node.heard.append, cancelled=lambda: False)
    with pytest.raises(CodeUnavailable, match="no address"):
        node.store.open(code, address=lambda: None, progress=node.heard.append, cancelled=lambda: False)


def test_a_portal_is_known_by_the_authority_of_its_certificate_and_no_other(tmp_path: Path) -> None:
    own = Authority(tmp_path, "own")
    server = CodeServer(own.sign("portal"))
    try:
        code = server.add(NOISE)
        for authority in (None, Authority(tmp_path, "other").ca):
            with pytest.raises(CodeUnavailable, match="is not known here .*: name its file in BERTH_NODE_PORTAL_CA"):
                Node(tmp_path / "code", server, authority=authority).fetch(code)
        assert server.asked == []
        assert Node(tmp_path / "code", server, authority=own.ca).fetch(code) == NOISE
    finally:
        server.close()


def test_a_file_of_the_authority_that_is_away_or_spoilt_is_named_and_fails_no_task(tmp_path: Path) -> None:
    own = Authority(tmp_path, "own")
    server = CodeServer(own.sign("portal"))
    try:
        code, known = server.add(NOISE), own.ca.read_bytes()
        node = Node(tmp_path / "code", server, authority=own.ca)
        words = "The authorities by which the portal at .* is known cannot be read .*: correct BERTH_NODE_PORTAL_CA"
        own.ca.unlink()
        with pytest.raises(CodeUnavailable, match=words):
            node.fetch(code)
        own.ca.write_text("nothing")
        with pytest.raises(CodeUnavailable, match=words):
            node.fetch(code)
        own.ca.write_bytes(known)
        assert node.fetch(code) == NOISE
    finally:
        server.close()


def test_a_proxy_that_is_away_is_told_from_a_portal_that_is(
    node: Node, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = server.add(NOISE)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(
        CodeUnavailable, match="The proxy on the way to the portal at .* cannot be used .*: correct HTTPS_PROXY"
    ):
        node.fetch(code)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert node.fetch(code) == NOISE


def test_why_code_is_not_fetched_is_in_the_log_once_and_never_with_its_address(node: Node, server: CodeServer) -> None:
    code, other = server.add(NOISE), server.add(packed({"other": b"code"}))
    with capture_logs() as lines:
        server.status = 503
        for one in (code, other, code):
            with pytest.raises(CodeUnavailable):
                node.fetch(one)
        assert [(line["event"], line["log_level"]) for line in lines] == [("code is not fetched", "warning")]
        assert lines[0]["reason"] == (
            f"The portal at 127.0.0.1:{server.port} does not give the code (HTTP status 503): if it stays so, look at "
            "its own log."
        )
        server.status = 0
        node.fetch(code)
        assert lines[-1]["event"] == "code is fetched again"


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

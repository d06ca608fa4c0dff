"""Code comes with the task: fetched, checked, unpacked as the task's own, gone with it; on both runtimes."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.protocol import Cause, Code, ContainerState, Phase
from tests.nodes.code_server import CodeServer
from tests.nodes.portal_side import PortalSide, spec_of
from tests.support.archives import member, packed
from tests.support.waiting import wait_until

SCRIPT = b"#!/bin/sh\necho hello from $(basename $0); cat data/words\n"
FOLDER = packed(
    {"run.sh": SCRIPT, "data/words": b"three words here\n", "link": member("link", tarfile.SYMTYPE, "data/words")},
    modes={"run.sh": 0o755},
)
NOISE = packed({"noise": os.urandom(600_000)})


@pytest.fixture
def server() -> Iterator[CodeServer]:
    made = CodeServer()
    yield made
    made.close()


def order(portal: PortalSide, server: CodeServer, code: Code, script: str, phase: Phase = Phase.RUN) -> str:
    spec = spec_of(script, code=code)
    portal.addresses[spec.attempt] = server.url(code)
    return portal.order(spec, phase)


def output(portal: PortalSide, attempt: str) -> list[str]:
    portal.wait_end(attempt)
    return portal.output(attempt).splitlines()


def cached(portal: PortalSide) -> set[str]:
    return {path.name for path in (portal.state / "code").iterdir()}


def workspaces(portal: PortalSide) -> list[Path]:
    """The unpacked folders on the node, whichever runtime it has."""
    return [*portal.state.glob("workspaces/*"), *portal.state.glob("homes/*.workspace*")]


def test_a_task_begins_in_its_code_which_is_its_own_and_goes_with_it(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(FOLDER)
    script = './run.sh; cat link; touch mine data/mine; stat -c "%u %a" . run.sh data data/words; pwd'
    attempt = order(portal, server, code, script)
    lines = output(portal, attempt)
    assert lines[:3] == ["hello from run.sh", "three words here", "three words here"]
    docker = portal.env["BERTH_NODE_RUNTIME"] == "docker"
    assert lines[3:7] == ["5000 755" if docker else "5000 700", "5000 755", "5000 755", "5000 644"]
    assert lines[7].endswith("/workspace" if docker else ".workspace")
    assert len(workspaces(portal)) == 1
    portal.end(attempt)
    wait_until(lambda: portal.container(attempt) is None, "the attempt to leave the reports")
    assert workspaces(portal) == []


def test_tasks_have_a_copy_each_of_what_is_fetched_once(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"run.sh": SCRIPT, "mine": os.urandom(10)}))
    attempts = [order(portal, server, code, "echo changed >> run.sh; wc -l < run.sh") for _ in range(3)]
    assert [output(portal, attempt) for attempt in attempts] == [["3"]] * 3
    assert len(server.asked) == 1


def test_a_gang_prepares_its_code_before_it_starts(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(FOLDER)
    attempt = order(portal, server, code, "./run.sh", Phase.PREPARE)
    portal.wait_state(attempt, ContainerState.PREPARED)
    portal.addresses.clear()
    portal.order(portal.specs[portal.orders[attempt].spec_hash], Phase.RUN)
    assert output(portal, attempt)[0] == "hello from run.sh"


def test_a_download_that_breaks_off_goes_on_where_it_was(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(NOISE)
    server.cut_at = 300_000
    attempt = order(portal, server, code, "wc -c < noise")
    waiting = portal.wait(attempt, lambda c: c.progress is not None and "broke off" in c.progress.message)
    assert waiting.progress is not None
    assert waiting.progress.code == "code"
    wait_until(lambda: any(server.asked), "the next try")
    server.cut_at = None
    assert output(portal, attempt) == ["600000"]
    assert 0 < server.asked[-1] <= 300_000


def test_a_portal_that_is_away_is_waited_for(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"late\n"}))
    server.status = 503
    attempt = order(portal, server, code, "cat a")
    portal.wait(attempt, lambda c: c.progress is not None and "503" in c.progress.message)
    server.status = 0
    assert output(portal, attempt) == ["late"]


def test_an_agent_that_is_killed_in_the_middle_goes_on(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"noise": os.urandom(600_000), "a": b"whole\n"}))
    server.cut_at = 200_000
    attempt = order(portal, server, code, "cat a; wc -c < noise")
    wait_until(lambda: len(server.asked) > 1, "a broken download")
    portal.agent.kill()
    half = portal.state / ("workspaces" if portal.env["BERTH_NODE_RUNTIME"] == "docker" else "homes")
    half.mkdir(exist_ok=True)
    name = attempt if half.name == "workspaces" else f"{attempt}.workspace"
    (half / f"{name}.new").mkdir()
    (half / f"{name}.new" / "a").write_text("half")
    server.cut_at = None
    portal.start()
    assert output(portal, attempt) == ["whole", "600000"]


def test_code_that_arrives_damaged_is_never_unpacked(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": os.urandom(1000)}))
    server.damage = True
    ended = portal.wait_end(order(portal, server, code, "echo ran"))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.CODE_MISSING
    assert "another content" in ended.exit.message
    assert server.asked == [0, 0, 0]
    assert workspaces(portal) == []


def test_what_was_damaged_on_the_node_is_fetched_anew(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"sound\n", "b": os.urandom(10)}))
    assert output(portal, order(portal, server, code, "cat a")) == ["sound"]
    kept = portal.state / "code" / code.sha256
    kept.write_bytes(b"rotten")
    assert output(portal, order(portal, server, code, "cat a")) == ["sound"]
    assert kept.stat().st_size == code.size


def test_code_that_the_portal_has_no_more_ends_the_task_with_that_cause(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"gone"}))
    server.status = 410
    ended = portal.wait_end(order(portal, server, code, "echo ran"))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.CODE_MISSING
    assert "submit it again" in ended.exit.message


def test_a_stop_does_not_wait_for_code(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"never"}))
    server.status = 503
    attempt = order(portal, server, code, "cat a")
    portal.wait(attempt, lambda c: c.progress is not None and c.progress.code == "code")
    portal.stop(attempt)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.cause is Cause.STOPPED

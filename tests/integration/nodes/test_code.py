"""Code comes with the task: fetched, checked, unpacked as the task's own, gone with it; on both runtimes."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodes.protocol.messages import Code
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.portal_side import PortalSide, spec_of
from tests.support.run.archives import member, packed
from tests.support.run.waiting import wait_until
from tests.support.services.code_server import CodeServer
from tests.support.services.tls import DAY, Authority

SCRIPT = b"#!/bin/sh\necho hello from $(basename $0); cat data/words\n"
FOLDER = packed(
    {"run.sh": SCRIPT, "data/words": b"three words here\n", "link": member("link", tarfile.SYMTYPE, "data/words")},
    modes={"run.sh": 0o755},
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def runtime_env(runtime_env: dict[str, str], authority: Authority) -> dict[str, str]:
    """With the authority by which the agent knows the portal."""
    return {**runtime_env, "BERTH_NODE_PORTAL_CA": str(authority.ca)}


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


def workspaces(portal: PortalSide) -> list[Path]:
    """The unpacked folders on the node, whichever runtime it has."""
    return [*portal.state.glob("workspaces/*"), *portal.state.glob("homes/*.workspace*")]


@pytest.mark.root
def test_a_task_begins_in_its_code_which_is_its_own_and_goes_with_it(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(FOLDER)
    script = './run.sh; cat link; touch mine data/mine; stat -c "%u %a" . run.sh data data/words; pwd'
    script += "; deep=$(seq -s/ 999); mkdir -p $deep; (cd $deep; mkdir -p $deep)"  # deeper than Python recurses
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


def test_a_portal_that_is_away_is_waited_for(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"late\n"}))
    server.status = 503
    attempt = order(portal, server, code, "cat a")
    portal.wait(attempt, lambda c: c.progress is not None and "503" in c.progress.message)
    server.status = 0
    assert output(portal, attempt) == ["late"]


def told(portal: PortalSide, url: str) -> str:
    """Why the code that should lie there does not come: as two tasks say it, and the agent's log once."""
    code = Code(sha256=hashlib.sha256(url.encode()).hexdigest(), size=1000, unpacked=1000, entries=1)
    specs = [spec_of("cat a", code=code) for _ in range(2)]
    for spec in specs:
        portal.addresses[spec.attempt] = url
    for attempt in [portal.order(spec, Phase.RUN) for spec in specs]:
        found = portal.wait(attempt, lambda c: c.progress is not None and c.progress.code == "code_unavailable")
    assert found.progress is not None
    why = found.progress.message
    assert portal.agent.tail().count(why) == 1, portal.agent.tail()
    return why


def test_an_address_where_no_portal_is_is_told_with_its_cure(portal: PortalSide) -> None:
    assert told(portal, "https://127.0.0.1:1/node/code/signed") == (
        "Nothing listens where the portal at 127.0.0.1:1 should: start it, open its port, or correct BERTH_URL of the "
        "portal."
    )
    assert told(portal, "https://nowhere.invalid/node/code/signed") == (
        "There is no server named nowhere.invalid: correct BERTH_URL of the portal, or this server's DNS."
    )


def test_a_certificate_of_the_portal_that_is_not_taken_is_told_with_its_cure(
    portal: PortalSide, authority: Authority, tmp_path: Path
) -> None:
    for files, words in (
        (authority.sign("expired", begins=-2 * DAY, ends=-DAY), "has expired: renew it there (or set this clock right"),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet: this server's clock says"),
        (
            authority.sign("other", host="portal.example.org"),
            "is for another name: write the name that it has into BERTH_URL of the portal, or have one made for",
        ),
        (
            Authority(tmp_path, "stranger").sign("foreign"),
            "is signed by an authority that is not known here (unable to get local issuer certificate): name its file "
            "in BERTH_NODE_PORTAL_CA.",
        ),
    ):
        with closing(CodeServer(files)) as bad:
            why = told(portal, f"https://127.0.0.1:{bad.port}/node/code/signed")
            assert why.startswith(f"The certificate of the portal at 127.0.0.1:{bad.port} {words}"), why
    with closing(CodeServer(authority.sign("good"))) as good:
        assert output(portal, order(portal, good, good.add(packed({"a": b"trusted\n"})), "cat a")) == ["trusted"]


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


def test_a_stop_does_not_wait_for_code(portal: PortalSide, server: CodeServer) -> None:
    code = server.add(packed({"a": b"never"}))
    server.status = 503
    attempt = order(portal, server, code, "cat a")
    portal.wait(attempt, lambda c: c.progress is not None and c.progress.code == "code_unavailable")
    portal.stop(attempt)
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert ended.exit.cause is Cause.STOPPED

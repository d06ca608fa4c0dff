"""The first hour with Berth as the pages have it, from a clone of this tree with all its packages: `make soak`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.stack import Stack
from tests.support.people.reader import Reader, reader_of
from tests.support.run.waiting import wait_until
from tests.support.services.compose import sources_copy
from tests.support.services.processes import free_port
from tests.support.services.systemd import a_server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]

SERVERS = "docs/admin/servers.md"
AS_SOMEBODY = ["-c", "user.name=Berth", "-c", "user.email=berth@example.org"]
# Waits until the demo has shown its job, then ends it as Ctrl-C does.
DEMO = """PORT={port} BERTH_DATA_DIR={data} setsid make demo >{out} 2>&1 & demo=$!
until grep -q "stays up" {out}; do kill -0 $demo || {{ cat {out} >&2; exit 1; }}; sleep 1; done
kill -TERM -$demo; wait $demo; cat {out}"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a repository with this tree as it is."""
    folder = sources_copy(tmp_path_factory.mktemp("repository") / "berth.git")
    for words in (["init", "-q"], ["add", "."], [*AS_SOMEBODY, "commit", "-q", "-m", "Berth"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    return str(folder)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    caches = {"UV_CACHE_DIR": f"{Path.home()}/.cache/uv", "npm_config_cache": f"{Path.home()}/.npm"}
    with reader_of(tmp_path, {**caches, "DOCKER_HOST": "unix:///nonexistent.sock"}) as made:
        for name in ("npm", "uv"):  # what they install goes into the clone
            (made.bin / name).unlink()
        yield made


def test_a_clone_runs_the_demo(reader: Reader, repository: str) -> None:
    demo = DEMO.format(port=free_port(), data=reader.folder / "data", out=reader.folder / "demo.out")
    clone = "git clone ADDRESS berth && cd berth"
    said = reader.section(
        "docs/admin/install.md", "Try it on one machine",
        words={"ADDRESS": repository}, instead={"make demo": demo}, deadline_s=2000,
    )  # fmt: skip
    assert "job admin/hello#1 succeeded" in said["make demo"]
    again = reader.section(
        "README.md", "Two commands", instead={"make demo": demo}, before={"make demo": "cd berth"}, deadline_s=600
    )
    assert "job admin/hello#2 succeeded" in again["make demo"]
    assert clone in said


def test_an_agent_is_installed_joins_and_is_brought_up_to_date(
    embedded_stack: Stack, reader: Reader, repository: str
) -> None:
    opt = reader.folder / "opt"
    with embedded_stack.client("root") as root, a_server(reader, opt=opt) as units:
        made = root.post("/join-tokens", json={"uses": 1, "hours": 1}).json()
        here = {"/opt/berth": str(opt)}
        reader.section(SERVERS, "Install the agent", words={**here, "ADDRESS": repository}, deadline_s=600)
        words = {**here, "/etc/systemd/system": str(units)}
        own = {"https://berth.example.org": embedded_stack.url, "TOKEN": made["secret"]}
        reader.section(SERVERS, "Join", words={**words, **own})
        wait_until(lambda: root.get("/nodes/joined").json()["claims"], "its first report")
        assert root.post("/nodes/joined/accept", json={}).json()["pending"] is False
        before = (units / "pid").read_text()
        reader.section("docs/admin/upgrades.md", "Upgrade an agent under systemd", words=here, deadline_s=600)
        assert (units / "pid").read_text() != before
        began = root.get("/nodes/joined").json()["last_report_at"]
        wait_until(lambda: root.get("/nodes/joined").json()["last_report_at"] > began, "a report of the new one")
        said = reader.section(SERVERS, "Check a server", words=here)
        assert re.search(r"^ok +version", [*said.values()][0], re.MULTILINE)

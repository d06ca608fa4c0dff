"""The whole compose stack, as docs/install.md has one start it, and a GPU server that joins from another network.

Minutes: `make compose-test`. One journey, since each step stands on the ones before it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from nodes.protocol import MARK
from tests.support.archives import packed
from tests.support.compose import NAME, Door, Project, build_settings, portal_settings, wait_answering
from tests.support.docker_engine import DockerEngine
from tests.support.person import job_file
from tests.support.services import Services
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.docker, pytest.mark.timeout(4800)]

PASSWORD = "correct-horse-battery"
INSTALL = "docs/install.md"
TICKS = 'i=0; while [ $i -lt 1200 ]; do echo "tick $i"; i=$((i+1)); sleep 0.1; done'
SENTENCE = re.compile(r"Open (\S+)/first and give the code (\S+)")


class Portal(NamedTuple):
    """The running stack and the way into it."""

    project: Project
    door: Door
    settings: dict[str, str]
    first_log: str


@pytest.fixture(scope="module")
def portal(services: Services, running_docker: DockerEngine) -> Iterator[Portal]:
    """Built and started by the commands of the documentation."""
    folder = services.new_folder("compose")
    settings = portal_settings(running_docker)
    project = Project(folder / "portal", running_docker, name="berth-test", settings=settings)
    try:
        printed = project.section(INSTALL, "On servers")
        door = Door(settings["BERTH_URL"], project.folder / "berth-ca.crt")
        yield Portal(project, door, settings, printed["docker compose logs web"])
    finally:
        project.run("docker compose --profile node down --volumes --timeout 5")


@pytest.fixture(scope="module")
def token(portal: Portal) -> str:
    """The first administrator's, made on the page by the code of the log."""
    found = SENTENCE.search(portal.first_log)
    assert found, portal.first_log
    assert found[1] == portal.settings["BERTH_URL"]
    with portal.door.client() as browser:
        fields = {"code": found[2], "username": "root", "password": PASSWORD, "csrfmiddlewaretoken": csrf(browser)}
        done = browser.post("/first", data=fields, headers={"Referer": f"{found[1]}/first"})
        assert done.status_code == httpx.codes.FOUND, done.text
        cookies = {cookie.name: cookie for cookie in browser.cookies.jar}
        assert cookies["sessionid"].secure
    with portal.door.client() as client:
        wanted = {"username": "root", "password": PASSWORD, "name": "tests", "scope": "admin"}
        return str(asked(client.post("/api/v1/login", json=wanted))["token"])


def csrf(browser: httpx.Client) -> str:
    page = browser.get("/first")
    assert page.is_success
    return str(browser.cookies["csrftoken"])


class Server(NamedTuple):
    """A GPU server on a network of its own, with the folders that its agent has."""

    project: Project
    state: Path
    jobs: Path


@pytest.fixture(scope="module")
def server(services: Services, running_docker: DockerEngine, portal: Portal, token: str) -> Iterator[Server]:
    """It knows the portal's name and authority, and a join token; nothing else."""
    folder = services.new_folder("gpu-server")
    state, jobs = folder / "state", folder / "jobs"
    state.mkdir()
    jobs.mkdir()
    # As every folder is on a server with systemd: mounts that come later are handed on into the agent's container.
    subprocess.run(["mount", "--bind", jobs, jobs], check=True)
    subprocess.run(["mount", "--make-shared", jobs], check=True)
    (state / "berth-ca.crt").write_bytes(portal.door.authority.read_bytes())
    settings = {
        "BERTH_NODE_STATE_DIR": str(state),
        "BERTH_NODE_MOUNT_ROOTS": str(jobs),
        "BERTH_NODE_GPUS": "simulated:4xA100-80GB",
        "BERTH_JOIN_CA": f"{state}/berth-ca.crt",
        "BERTH_DOCKER_SOCKET": running_docker.url.removeprefix("unix://"),
        **build_settings(),
    }
    project = Project(folder / "clone", running_docker, name="berth-gpu", settings=settings)
    with running_docker.client() as client:
        site = client.networks.create("berth-site", driver="bridge")
        site.reload()
        gateway = site.attrs["IPAM"]["Config"][0]["Gateway"]
        # In the place of the server's own network: another one, from which the portal is somewhere else.
        override = {
            "services": {"agent": {"network_mode": "berth-site", "extra_hosts": [f"{NAME}:{gateway}"]}},
        }
        (project.folder / "compose.override.yaml").write_text(yaml.safe_dump(override))
        try:
            yield Server(project, state, jobs)
        finally:
            project.run("docker compose --profile node down --timeout 5")
            site.remove()
            subprocess.run(["umount", "--lazy", jobs], check=True)


@pytest.fixture(scope="module")
def api(portal: Portal, token: str) -> Iterator[httpx.Client]:
    with portal.door.client(token) as client:
        client.base_url = client.base_url.join("/api/v1/")
        yield client


def asked(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def joined(portal: Portal, server: Server, api: httpx.Client) -> str:
    """The node's name, once it has joined by the commands of the documentation, and jobs may run there."""
    made = asked(api.post("join-tokens", json={"uses": 1, "hours": 1}))
    server.project.variables = {"URL": portal.settings["BERTH_URL"], "TOKEN": made["secret"], "NAME": "gpu01"}
    checked = server.project.section(INSTALL, "A GPU server")[
        "docker compose --profile node exec -T agent python -m nodes check"
    ]
    assert re.search(r"^ok +redis", checked, re.MULTILINE), checked
    wait_until(lambda: node(api)["health"] == "healthy", "the server to report", deadline_s=60)
    (server.jobs / "runs").mkdir()
    storage = {"name": "jobs", "root": f"{server.jobs}/runs", "jobs": True, "everyone": True, "must_be_mount": False}
    asked(api.post("storages", json=storage))
    wait_until(lambda: asked(api.get("storages/jobs"))["nodes"] == ["gpu01"], "the server to offer it", deadline_s=60)
    asked(api.post("virtual-clusters", json={"name": "lab"}))
    (kind,) = [kind["name"] for kind in api.get("cell-types").json() if kind["gpus"] == 1]
    asked(api.patch("quotas", json={"lines": [{"vc": "lab", "cell_type": kind, "count": 4}]}))
    return "gpu01"


def node(api: httpx.Client) -> dict[str, Any]:
    return asked(api.get("nodes/gpu01"))


def submit(api: httpx.Client, *commands: str, **changes: Any) -> int:
    text = job_file(*commands, vc="lab", **changes)
    return int(asked(api.post("jobs", content=text, headers={"Content-Type": "application/yaml"}))["id"])


def wait_job(api: httpx.Client, job: int, *states: str, deadline_s: float = 300) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = asked(api.get(f"jobs/{job}"))
        over = found["state"] in {"failed", "stopped", "succeeded"}
        assert not over or found["state"] in states, found["end_message"]
        return found if found["state"] in states else None

    return wait_until(there, f"job {job} to be {states}", deadline_s=deadline_s, every_s=0.3)


def attempt_of(api: httpx.Client, job: int) -> str:
    tasks = asked(api.get(f"jobs/{job}/tasks"))["results"]
    return str(tasks[0]["attempts"][0]["id"])


# ---------------------------------------------------------------- what runs


def test_the_portal_answers_by_https_with_the_stacks_own_authority(portal: Portal) -> None:
    page = portal.door.curl("/login", "--include")
    assert " 200" in page.splitlines()[0]
    assert "strict-transport-security: max-age=31536000" in page
    assert "csrfmiddlewaretoken" in page
    plain = httpx.get(
        f"http://127.0.0.1:{portal.settings['BERTH_HTTP_PORT']}/jobs", headers={"Host": NAME}, trust_env=False
    )
    assert (plain.status_code, plain.headers["Location"]) == (308, f"{portal.settings['BERTH_URL']}/jobs")


def test_every_container_is_well_and_none_is_root(portal: Portal, running_docker: DockerEngine) -> None:
    found = {one["Service"]: one for one in portal.project.containers()}
    assert {name for name, one in found.items() if one["Health"] == "healthy"} == {
        "postgres", "redis", "web", "scheduler", "reports", "control", "proxy",
    }  # fmt: skip
    assert {name: one["ExitCode"] for name, one in found.items() if one["State"] == "exited"} == {
        "setup": 0, "migrate": 0,
    }  # fmt: skip
    for name in found.keys() - {"setup", "migrate"}:
        assert portal.project.run(f"docker compose exec -T {name} id -u").strip() != "0", name


def test_secrets_are_in_no_image_and_in_nobodys_environment(portal: Portal, running_docker: DockerEngine) -> None:
    kept = "cd /run/berth; cat database-password redis-password keys/*"
    secrets = portal.project.run(f"docker compose exec -T web sh -c '{kept}'").split()
    assert len(secrets) >= 5
    with running_docker.client() as client:
        seen = json.dumps([one.attrs for one in client.containers.list(all=True)])
        layers = json.dumps(client.images.get("berth-portal").history())
    assert not any(secret in seen or secret in layers for secret in secrets)
    names = " -o ".join(f"-name {name}" for name in ("django.key", "portal.key", "sealing.key", "ca.key", ".env"))
    files = portal.project.run(f"docker run --rm --user 0 berth-portal find / -xdev {names}")
    assert files.split() == []
    others = portal.project.run("docker compose exec -T proxy sh -c 'cat /run/berth/database-password; true' 2>&1")
    assert "Permission denied" in others
    (portal.project.folder / "oidc-secret").write_text("of the operator's own")
    portal.project.section("docs/operate.md", "The compose stack")
    mine = "cat /run/berth/oidc-secret; stat -c %a /run/berth/oidc-secret"
    assert portal.project.run(f"docker compose exec -T control sh -c '{mine}'") == "of the operator's own600\n"


def test_what_a_client_says_of_itself_is_believed_by_nobody(portal: Portal, api: httpx.Client) -> None:
    """The proxy replaces it, and of anybody but the proxy the web process does not take it."""
    wrong = {"username": "root", "password": "wrong"}
    with portal.door.client() as client:
        assert client.post("/api/v1/login", json=wrong, headers={"X-Forwarded-For": "192.0.2.66"}).is_client_error
    script = (
        "import json, urllib.request as u; r = u.Request('http://web:8000/api/v1/login', "
        f"data=json.dumps({wrong!r}).encode(), headers={{'Content-Type': 'application/json', "
        f"'X-Forwarded-For': '192.0.2.77', 'Host': '{NAME}'}}); "
        "print(u.build_opener(type('A', (u.HTTPErrorProcessor,), {'http_response': lambda s, q, a: a})).open(r).status)"
    )
    inside = portal.project.run(f'docker compose exec -T control python -c "{script}"')
    assert inside.startswith("4"), inside
    entries = asked(api.get("audit?action=sign_in.refused"))["results"]
    addresses = [entry["address"] for entry in entries]
    assert len(addresses) == 2
    assert len(set(addresses)) == 2, "each is who it came from"
    assert not any(address.startswith("192.0.2.") for address in addresses)


def test_a_server_of_another_network_joins_runs_a_job_with_its_code_and_nothing_is_lost_by_restarts(
    portal: Portal, server: Server, api: httpx.Client, token: str, joined: str
) -> None:
    # Just below the 100 MB that are let through, and nothing that could be packed smaller.
    archive = packed({"weights.bin": os.urandom(99_000_000)})
    code = asked(api.post("code", content=archive, headers={"Content-Type": "application/gzip"}))
    assert code["size"] == len(archive)

    long = submit(api, "wc -c weights.bin", TICKS, "sha256sum weights.bin", gpu=1, berth={"code": code["id"]})
    wait_job(api, long, "running")
    attempt = attempt_of(api, long)
    read, offset = live(portal, token, attempt, 0, until="tick 5\n")
    assert read.startswith("99000000 weights.bin\ntick 0\n")

    portal.project.section(INSTALL, "A backup")
    portal.project.section(INSTALL, "Every day")  # every container is restarted
    wait_answering(portal.door)
    server.project.section(INSTALL, "Another version of a server's agent")
    server.project.run("docker compose --profile node restart --timeout 5 agent")
    more, offset = live(portal, token, attempt, offset, until=f"tick {last_tick(read) + 50}\n")
    portal.project.section(INSTALL, "Another version")
    portal.project.run("docker compose down --timeout 10")
    portal.project.run("docker compose up -d --wait")
    wait_answering(portal.door)

    wait_job(api, long, "succeeded")
    rest, _ = live(portal, token, attempt, offset, until=None)
    lines = (read + more + rest).splitlines()
    assert lines[1:-1] == [f"tick {number}" for number in range(1200)]
    assert len(lines[-1].split()[0]) == 64
    stored = api.get(f"jobs/{long}/logs", params={"task_attempt": attempt, "format": "text"}).text
    assert [line for line in stored.splitlines() if line.startswith("tick")] == lines[1:-1]
    assert asked(api.get("me"))["username"] == "root"
    after = submit(api, "echo after")
    wait_job(api, after, "succeeded")
    (agent,) = server.project.containers()
    assert agent["Service"] == "agent"
    wait_until(lambda: server.project.containers()[0]["Health"] == "healthy", "the agent to be well", every_s=1)


def test_the_portal_comes_back_from_its_backup(portal: Portal, api: httpx.Client, joined: str) -> None:
    kept = submit(api, "echo kept")
    wait_job(api, kept, "succeeded")
    portal.project.section(INSTALL, "A backup")
    gone = submit(api, "echo gone")
    wait_job(api, gone, "succeeded")
    portal.project.section(INSTALL, "Back from a backup")
    wait_answering(portal.door)
    assert asked(api.get(f"jobs/{kept}"))["state"] == "succeeded"
    assert api.get(f"jobs/{gone}").status_code == httpx.codes.NOT_FOUND
    wait_until(lambda: node(api)["health"] == "healthy", "the server to report", deadline_s=60)
    wait_job(api, submit(api, "echo after"), "succeeded")
    portal.project.section("docs/troubleshooting.md", "What the portal's processes say")


def last_tick(text: str) -> int:
    return int(re.findall(r"^tick (\d+)\n", text, re.MULTILINE)[-1])


def live(portal: Portal, token: str, attempt: str, offset: int, *, until: str | None) -> tuple[str, int]:
    """What the log's websocket sends from an offset on, until it has sent this, or all; and the offset behind it."""
    text = ""
    with portal.door.socket(f"/ws/logs/{attempt}?offset={offset}", token) as socket:
        while True:
            message = json.loads(socket.recv(timeout=120))
            if message["type"] == "end":
                return text, offset
            assert message["from"] == offset
            offset = message["to"]
            text += "".join(piece for _, stream, piece in message["records"] if stream != MARK)
            if until is not None and until in text:
                return text, offset

"""The whole compose stack, as docs/admin/install.md has one start it, and a GPU server that joins from another network.

Minutes: `make compose-test`. One journey, since each step stands on the ones before it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from portal.compose.certificates import authority_make
from tests.support.people.documents import commands
from tests.support.people.person import job_file
from tests.support.run.archives import packed
from tests.support.run.waiting import wait_until
from tests.support.services.compose import (
    NAME,
    Door,
    Project,
    certificate_put,
    names_shown,
    portal_settings,
    trusting,
    wait_answering,
)
from tests.support.services.compose_server import Server, new_server
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.services import Services

pytestmark = [pytest.mark.soak, pytest.mark.docker, pytest.mark.timeout(4800)]

PASSWORD = "correct-horse-battery"
INSTALL = "docs/admin/install.md"
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


@pytest.fixture(scope="module")
def server(services: Services, running_docker: DockerEngine, portal: Portal) -> Iterator[Server]:
    with new_server(services, running_docker, "gpu01") as made:
        yield made


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
    server.project.variables = {"URL": portal.settings["BERTH_URL"], "TOKEN": told_by_the_page(api), "NAME": "gpu01"}
    checked = server.project.section(INSTALL, "A GPU server")[
        "docker compose --profile node exec -T agent python -m nodes check"
    ]
    assert re.search(r"^ok +redis", checked, re.MULTILINE), checked
    wait_until(lambda: node(api)["claims"], "the server to say what it has", deadline_s=60)
    assert (node(api)["pending"], node(api)["gpus"]) == (True, [])
    asked(api.post("nodes/gpu01/accept", json={}))
    wait_until(lambda: len(node(api)["gpus"]) == 4, "the accepted server's GPUs", deadline_s=60)
    (server.jobs / "runs").mkdir()
    storage = {"name": "jobs", "root": f"{server.jobs}/runs", "jobs": True, "everyone": True, "must_be_mount": False}
    asked(api.post("storages", json=storage))
    wait_until(lambda: asked(api.get("storages/jobs"))["nodes"] == ["gpu01"], "the server to offer it", deadline_s=60)
    asked(api.post("virtual-clusters", json={"name": "lab"}))
    (kind,) = [kind["name"] for kind in api.get("cell-types").json() if kind["gpus"] == 1]
    asked(api.patch("quotas", json={"lines": [{"vc": "lab", "cell_type": kind, "count": 4}]}))
    return "gpu01"


def told_by_the_page(api: httpx.Client) -> str:
    """The line's words behind the portal's address: a token, and the digest of the portal's authority."""
    line = str(asked(api.post("join-tokens", json={"uses": 1, "hours": 1}))["line"])
    assert re.fullmatch(r".* berth_join_\S+ --ca-sha256 [0-9a-f]{64}", line), line
    return line.split(maxsplit=4)[4]


def node(api: httpx.Client, name: str = "gpu01") -> dict[str, Any]:
    return asked(api.get(f"nodes/{name}"))


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
    portal.project.section("docs/admin/processes.md", "The compose stack")
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


def test_without_settings_the_first_step_says_what_is_missing(portal: Portal) -> None:
    settings = portal.project.folder / ".env"
    settings.rename(aside := settings.with_suffix(".aside"))
    try:
        said = portal.project.run("! docker compose run --rm --no-deps setup 2>&1")
    finally:
        aside.rename(settings)
    assert "berth: BERTH_URL is not set: write the portal's address into .env" in said


def test_a_worker_that_is_cut_off_from_redis_is_not_well(portal: Portal, running_docker: DockerEngine) -> None:
    well = "docker compose exec -T control healthy 9100 /healthz"
    portal.project.run(well)
    with running_docker.client() as client:
        (inner,) = client.networks.list(names=["berth-test_inner"])
        (control,) = client.containers.list(filters={"label": "com.docker.compose.service=control"})
        inner.disconnect(control)
        portal.project.run(f"! {well}")
        inner.connect(control, aliases=["control"])

    def is_well() -> bool:
        return portal.project.run(f"{well} && echo yes || true").endswith("yes\n")

    wait_until(is_well, "the worker to be back", deadline_s=90, every_s=1)


def test_prometheus_reads_the_figures_of_every_process_however_many_there_are(portal: Portal, token: str) -> None:
    (portal.project.folder / "berth-token").write_text(token)
    portal.project.section("docs/admin/alerts.md", "Prometheus in the compose stack")
    portal.project.section("docs/admin/processes.md", "More processes")
    url = f"http://127.0.0.1:{portal.settings['BERTH_PROMETHEUS_PORT']}/api/v1/query"

    def value(query: str) -> dict[str, int]:
        answer = httpx.get(url, params={"query": query}, timeout=10, trust_env=False)
        found = asked(answer)["data"]["result"]
        return {one["metric"].get("process", "web"): round(float(one["value"][1])) for one in found}

    wanted = {"web": 1, "scheduler": 2, "reports": 1, "control": 2}
    wait_until(lambda: value("sum by (process) (up)") == wanted, "every process to be read", deadline_s=120, every_s=1)
    assert value('sum(berth_nodes{health="lost"})').keys() <= {"web"}
    cycles = wait_until(lambda: value("sum by (process) (berth_scheduler_cycle_seconds_count)"), "cycles", every_s=1)
    assert cycles["scheduler"] > 0
    portal.project.run("docker compose --profile monitoring rm --stop --force prometheus")
    portal.project.run("docker compose up -d --wait")


def test_what_is_wrong_is_said_where_no_container_with_gpus_starts(server: Server) -> None:
    """Docker's own words for a server without NVIDIA's toolkit; that of the tests knows the driver's name alone."""
    override = server.project.folder / "docker-compose.override.yml"
    before = override.read_text()
    changed = json.loads(before)
    device = [{"driver": "none", "count": "all", "capabilities": ["gpu"]}]
    changed["services"]["agent"]["deploy"] = {"resources": {"reservations": {"devices": device}}}
    override.write_text(json.dumps(changed).replace('"devices":', '"devices": !override'))
    refused = server.project.run("! docker compose --profile node up -d agent 2>&1")
    assert 'could not select device driver "none"' in refused
    (check,) = [line for line in commands(INSTALL, "A GPU server") if line.endswith("berth-node check")]
    said = server.project.run(f"{check} || test $? = 1")
    assert re.search(r"^failed +settings .*BERTH_NODE_NAME", said, re.MULTILINE), said
    assert re.search(r"^ok +docker", said, re.MULTILINE), said
    override.write_text(before)
    server.project.run("docker compose --profile node down --timeout 5")


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
    read, offset = portal.door.log(token, attempt, 0, until="tick 5\n")
    assert read.startswith("99000000 weights.bin\ntick 0\n")

    portal.project.section("docs/admin/backup.md", "Back up the compose stack")
    portal.project.section(INSTALL, "Every day")  # every container is restarted
    wait_answering(portal.door)
    server.project.section("docs/admin/upgrades.md", "Upgrade an agent in a container")
    server.project.run("docker compose --profile node restart --timeout 5 agent")
    more, offset = portal.door.log(token, attempt, offset, until=f"tick {last_tick(read) + 50}\n")
    release_change(portal.project)
    portal.project.section("docs/admin/upgrades.md", "Upgrade the portal")
    assert "x-release: next" in portal.door.curl("/login", "--include"), "the proxy has the release's settings"
    told = "redis-cli --tls --cacert /run/berth/ca.crt --user portal config get maxclients"
    redis = f"docker compose exec -T redis sh -c 'REDISCLI_AUTH=$(cat /run/berth/redis-password) {told}'"
    assert portal.project.run(redis).split() == ["maxclients", "4321"], "and Redis"
    portal.project.run("docker compose down --timeout 10")
    portal.project.run("docker compose up -d --wait")
    wait_answering(portal.door)

    wait_job(api, long, "succeeded")
    rest, _ = portal.door.log(token, attempt, offset, until=None)
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


def release_change(project: Project) -> None:
    """As a release with other settings for the proxy and Redis."""
    path = project.folder / "portal" / "compose" / "files.py"
    text = path.read_text()
    for there, then in (("{tls}\treverse_proxy", "{tls}\theader X-Release next\n\treverse_proxy"),
                        ("appendonly no\n", "appendonly no\nmaxclients 4321\n")):  # fmt: skip
        assert text.count(there) == 1
        text = text.replace(there, then)
    path.write_text(text)


def test_the_portal_comes_back_from_its_backup(portal: Portal, api: httpx.Client, joined: str) -> None:
    kept = submit(api, "echo kept")
    wait_job(api, kept, "succeeded")
    portal.project.section("docs/admin/backup.md", "Back up the compose stack")
    gone = submit(api, "echo gone")
    wait_job(api, gone, "succeeded")
    portal.project.run("docker compose --profile '*' down --volumes --timeout 5")
    portal.project.run("docker compose up -d --wait")  # a new stack, with keys and an authority of its own
    portal.project.section("docs/admin/backup.md", "Restore the compose stack")
    wait_answering(portal.door)
    assert asked(api.get(f"jobs/{kept}"))["state"] == "succeeded"
    assert api.get(f"jobs/{gone}").status_code == httpx.codes.NOT_FOUND
    wait_until(lambda: node(api)["health"] == "healthy", "the server to report", deadline_s=60)
    wait_job(api, submit(api, "echo after"), "succeeded")
    portal.project.section("docs/admin/troubleshooting-portal.md", "What the portal's processes say")


def test_a_server_joins_by_its_settings_alone(
    services: Services, running_docker: DockerEngine, portal: Portal, api: httpx.Client, joined: str
) -> None:
    secret, _, digest = told_by_the_page(api).split()
    told = {
        "BERTH_JOIN_URL": portal.settings["BERTH_URL"], "BERTH_JOIN_TOKEN": secret, "BERTH_JOIN_CA_SHA256": digest,
        "BERTH_NODE_NAME": "gpu02",
    }  # fmt: skip
    with new_server(services, running_docker, "gpu02", told) as server:
        server.project.section("docs/admin/servers.md", "Join by settings")
        wait_until(lambda: node(api, "gpu02")["health"] == "healthy", "the server to report", deadline_s=60)


def test_another_address_and_another_certificate_reach_proxy_and_redis(portal: Portal, tmp_path: Path) -> None:
    """An IP address, with the stack's own authority; then the name, with an operator's own certificate."""
    port, redis_port = (int(portal.settings[f"BERTH_{name}_PORT"]) for name in ("HTTPS", "REDIS"))
    portal.project.settings_change(BERTH_URL=f"https://127.0.0.2:{port}")
    portal.project.run("docker compose up -d --wait")
    known = portal.door.authority
    assert httpx.get(f"https://127.0.0.2:{port}/healthz", verify=trusting(known), trust_env=False).is_success
    assert ("IP Address", "127.0.0.2") in names_shown("127.0.0.2", redis_port, known)

    folder = tmp_path / "certificate"
    folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    authority, key = authority_make(name="the house", now=datetime.now(UTC))
    (tmp_path / "house.crt").write_text(authority)
    certificate_put(folder, authority, key, NAME, "first.test")
    portal.project.settings_change(
        BERTH_URL=f"https://{NAME}:{port}", BERTH_CERTIFICATE="files", BERTH_CERTIFICATE_DIR=str(folder)
    )
    portal.project.run("docker compose up -d --wait")
    house = Door(portal.settings["BERTH_URL"], tmp_path / "house.crt")
    assert " 200" in house.curl("/healthz", "--include").splitlines()[0]
    assert ("DNS", "first.test") in names_shown(NAME, port, house.authority)
    assert ("DNS", NAME) in names_shown(NAME, redis_port, known)
    certificate_put(folder, authority, key, NAME, "second.test")
    portal.project.run("docker compose restart proxy")
    wait_answering(house)
    assert ("DNS", "second.test") in names_shown(NAME, port, house.authority)


def last_tick(text: str) -> int:
    return int(re.findall(r"^tick (\d+)\n", text, re.MULTILINE)[-1])

"""An agent that cannot reach Redis says why in one sentence, with its cure: against a real Redis that speaks TLS."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from celery import Celery
from structlog.testing import capture_logs

from nodes.agent.attempts.orders import tasks_register
from nodes.agent.check.portal import redis_finding
from nodes.agent.clock import SystemClock
from nodes.agent.config.options import OptionInvalid, key_make, options_load
from nodes.agent.connecting import redis_endpoint
from nodes.protocol.addresses import AddressInvalid, redis_secured
from nodes.protocol.connecting import Endpoint, connection_fault
from nodes.protocol.envelope import Envelope, PortalKey, envelope_seal
from nodes.protocol.messages import Desired, encode
from nodes.protocol.names import DESIRED_TASK
from portal.env.addresses import env_redis
from portal.env.values import BadSetting
from tests.support.run.waiting import wait_until
from tests.support.services.processes import Process
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services
from tests.support.services.tls import DAY, Authority, Files

NOW_MS = 1_800_000_000_000
Start = Callable[[Files], RedisServer]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def start(services: Services, authority: Authority) -> Iterator[Start]:
    """Starts a Redis with this certificate; it ends with the test."""
    with ExitStack() as ended:

        def started(files: Files) -> RedisServer:
            server = RedisServer(services.new_folder("tls") / "redis", services.guard, tls=files, ca=authority.ca)
            ended.callback(server.kill)
            server.process.start()
            wait_until(lambda: _listens(server.port), "Redis with TLS")
            return server

        yield started


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def said(url: str, now_ms: int = NOW_MS) -> str:
    """Why it cannot be used."""
    with pytest.raises((redis.RedisError, OSError)) as caught, redis.Redis.from_url(url) as client:
        client.ping()
    return connection_fault(caught.value, redis_endpoint(url), now_ms=now_ms)


@pytest.mark.redis_tls
def test_a_good_certificate_of_an_own_authority_is_taken(start: Start, authority: Authority) -> None:
    server = start(authority.sign("good"))
    with server.client() as client:
        assert client.ping()
    assert redis_finding(server.url, "gpu01").verdict == "warning", "by an account that may do everything"


@pytest.mark.redis_tls
def test_each_bad_certificate_ends_in_one_sentence(start: Start, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    for files, words in (
        (authority.sign("expired", begins=-2 * DAY, ends=-DAY), "has expired: renew it there"),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet: this server's clock says 2027-01-15"),
        (
            authority.sign("other", host="redis.example.org"),
            "is for another name: write the name that it has",
        ),
        (stranger.sign("unknown"), "is signed by an authority that is not known here"),
    ):
        server = start(files)
        sentence = said(server.url)
        assert sentence.startswith(f"The certificate of Redis at 127.0.0.1:{server.port} "), sentence
        assert words in sentence, sentence


@pytest.mark.redis_tls
def test_tls_where_there_is_none_and_none_where_there_is(
    start: Start, authority: Authority, redis_server: RedisServer
) -> None:
    server = start(authority.sign("plain"))
    assert "or it wants TLS; then BERTH_NODE_REDIS_URL begins with rediss://" in said(
        f"redis://127.0.0.1:{server.port}/0"
    )
    speaks = redis_secured(redis_server.url.replace("redis://", "rediss://"), str(authority.ca))
    assert "does not speak TLS" in said(f"{speaks}&socket_timeout=0.3&socket_connect_timeout=0.3")


@pytest.mark.redis
def test_what_else_keeps_an_agent_out_ends_in_one_sentence(redis_server: RedisServer) -> None:
    at = f"Redis at 127.0.0.1:{redis_server.port}"
    with redis_server.client() as root:
        root.acl_setuser("node.gpu01", enabled=True, passwords=["+right"], commands=["+ping"])
    try:
        wrong = redis_server.url.replace("redis://", "redis://node.gpu01:wrong@")
        assert said(wrong).startswith(f"{at} does not know this node's account: the portal puts it in place")
        right = redis_server.url.replace("redis://", "redis://node.gpu01:right@")
        line = redis_finding(right, "gpu01")
        assert (line.verdict, line.cure[:9]) == ("failed", "The porta"), line
    finally:
        with redis_server.client() as root:
            root.acl_deluser("node.gpu01")
    assert said("redis://127.0.0.1:1/0").startswith("Nothing listens where Redis at 127.0.0.1:1 should: start it")
    assert said("redis://nowhere.invalid:6379/0").startswith("There is no server named nowhere.invalid: correct BERTH")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0?socket_timeout=0.2"
        assert "does not answer: look for a firewall between" in said(url)


@pytest.mark.parametrize("url", ["https://x:99999", "https://x:abc", "https://[::1"])
def test_of_an_address_that_cannot_be_read_the_setting_is_named_alone(url: str) -> None:
    place = Endpoint("the portal", url, "BERTH_URL", "BERTH_CA")
    refused = connection_fault(ConnectionRefusedError(), place, now_ms=NOW_MS)
    assert refused.startswith("Nothing listens where the portal of BERTH_URL should: ")
    unknown = connection_fault(socket.gaierror(), place, now_ms=NOW_MS)
    assert unknown.startswith("There is no server of the name in BERTH_URL: ")
    for error in (TimeoutError(), ConnectionResetError(), ValueError("it is none")):
        assert "the portal of BERTH_URL" in connection_fault(error, place, now_ms=NOW_MS).replace(
            "The portal", "the portal"
        )


@pytest.mark.redis_tls
def test_the_agent_says_it_in_its_log_and_goes_on_when_it_is_put_right(
    services: Services, start: Start, authority: Authority
) -> None:
    folder = services.new_folder("agent")
    server = start(authority.sign("agent-expired", begins=-2 * DAY, ends=-timedelta(hours=1)))
    key_make(folder / "state" / "node.key")
    env = {
        **os.environ,
        "BERTH_NODE_NAME": "gpu01",
        "BERTH_NODE_REDIS_URL": f"rediss://127.0.0.1:{server.port}/0",
        "BERTH_NODE_REDIS_CA": str(authority.ca),
        "BERTH_NODE_STATE_DIR": str(folder / "state"),
        "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
        "BERTH_NODE_RUNTIME": "process",
        "BERTH_NODE_GPUS": "simulated:1xA100-80GB",
        "BERTH_NODE_REPORT_EVERY_S": "0.2",
    }
    agent = Process("gpu01", [sys.executable, "-m", "nodes"], guard=services.guard, log=folder / "agent.log", env=env,
                    cwd=Path(__file__).parents[3])  # fmt: skip
    agent.start()
    try:
        wait_until(lambda: "has expired: renew it there" in agent.tail(), "the sentence", deadline_s=30)
        assert agent.is_running()
        good = authority.sign("agent-expired")  # in its place
        with redis.Redis.from_url(server.url.replace("required", "none").replace("true", "false")) as root:
            root.config_set("tls-cert-file", str(good.certificate), "tls-key-file", str(good.key))
            wait_until(lambda: root.llen("reports"), "a report", deadline_s=30)
    finally:
        agent.kill()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://10.0.0.5:6379/0", "leads to another machine without TLS"),
        ("rediss://redis.example.org/0?ssl_cert_reqs=none", "protects nothing"),
        ("rediss://redis.example.org/0?ssl_check_hostname=false", "protects nothing"),
        ("http://redis.example.org", "must be redis://"),
        ("redis://127.0.0.1:port/0", "must be redis://"),
    ],
)
def test_an_address_that_others_could_listen_on_is_not_taken(url: str, why: str) -> None:
    with pytest.raises(AddressInvalid, match=why):
        redis_secured(url)
    told = {"BERTH_NODE_NAME": "gpu01", "BERTH_NODE_REDIS_URL": url,
            "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public}  # fmt: skip
    with pytest.raises(OptionInvalid, match=f"BERTH_NODE_REDIS_URL.*{why}"):
        options_load([], told)


def test_an_authority_that_is_no_certificate_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    told = {"BERTH_NODE_NAME": "gpu01", "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
            "BERTH_NODE_REDIS_URL": "rediss://redis.example.org/0",
            "BERTH_NODE_REDIS_CA": str(tmp_path / "ca.pem")}  # fmt: skip
    with pytest.raises(OptionInvalid, match="is no file of certificates in PEM"):
        options_load([], told)


def test_an_agent_whose_clock_is_wrong_says_so_of_its_orders() -> None:
    key, app = PortalKey.generate(), Celery("agent", set_as_current=False)
    taken: list[Desired] = []

    class Ahead(SystemClock):
        """An hour ahead."""

        def now_ms(self) -> int:
            return super().now_ms() + 3_600_000

    tasks_register(app, node="gpu01", portal_public_key=key.public, clock=Ahead(), take=taken.append)
    body = encode(Desired(cluster="berth", node="gpu01", generation=1, orders=())).decode()
    soon = SystemClock().now_ms() + 15_000
    with capture_logs() as lines:
        app.tasks[DESIRED_TASK](envelope_seal(key, Envelope("portal", "gpu01", "desired", soon, body)))
    assert taken == []
    assert [line["event"] for line in lines] == ["orders refused"]
    assert re.fullmatch(
        r"the message expired 35\d{5} ms ago by this machine's clock: set it right "
        r"\(a time server: timedatectl set-ntp true\), or the portal's",
        lines[0]["reason"],
    )


def test_the_commands_can_be_called_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "berth-node").symlink_to(Path(__file__).parents[3] / "nodes" / "berth-node")
    done = subprocess.run(
        [str(tmp_path / "berth-node"), "join", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: berth-node join")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://10.0.0.5:6379/0", "leads to another machine without TLS"),
        ("rediss://redis.example.org:6380/0", "leads to another machine without a password"),
        ("rediss://:pw@redis.example.org/0?ssl_cert_reqs=none", "protects nothing"),
    ],
)
def test_the_portal_does_not_start_with_such_an_address_and_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, url: str, why: str
) -> None:
    monkeypatch.setenv("BERTH_REDIS_URL", url)
    with pytest.raises(BadSetting, match=f"^BERTH_REDIS_URL: .*{why}") as refused:
        env_redis("BERTH_REDIS_URL", "", ca="", password=True)
    assert "example" not in str(refused.value)
    assert "10.0.0.5" not in str(refused.value)


def test_the_portal_takes_tls_with_a_password_and_what_stays_on_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_REDIS_URL", "rediss://portal:pw@redis.example.org:6380/0")
    taken = env_redis("BERTH_REDIS_URL", "", ca="/etc/ca.pem", password=True)
    assert taken.startswith("rediss://portal:pw@redis.example.org:6380/0?ssl_cert_reqs=required&")
    assert taken.endswith("ssl_ca_certs=%2Fetc%2Fca.pem")
    monkeypatch.setenv("BERTH_REDIS_URL", "redis://127.0.0.1:6379/1")
    assert env_redis("BERTH_REDIS_URL", "", ca="", password=True) == "redis://127.0.0.1:6379/1"

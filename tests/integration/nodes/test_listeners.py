"""What answers on a server without authentication is found by its answer, and nobody who listens there holds up or
fools who looks."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import docker
import pytest
import redis
from celery import Celery

from nodes.agent.assembly import Agent
from nodes.agent.check.finding import Verdict
from nodes.agent.check.listeners import listener_findings
from nodes.agent.clock import SystemClock
from nodes.agent.config.options import key_make, options_load
from nodes.agent.listeners.exchange import SocketAddress
from nodes.agent.listeners.identify import identify
from nodes.agent.listeners.scan import scan
from nodes.agent.listeners.watch import ListenerWatch
from nodes.agent.runtimes import ports
from nodes.agent.runtimes.ports import ports_listening
from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import Listener
from nodes.protocol.names import LABEL
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.processes import free_port
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services
from tests.support.services.tls import Authority, Files

Speaks = Callable[[bytes], bytes]


def pages(found: Mapping[str, object], *, otherwise: str = "404 Not Found") -> Speaks:
    """A web server with these pages; text as it is, everything else as JSON."""

    def reply(said: bytes) -> bytes:
        words = said.split()
        if len(words) < 3 or not words[2].startswith(b"HTTP/"):
            return b"HTTP/1.1 400 Bad Request\r\n\r\n"
        if (page := found.get(words[1].decode())) is None:
            return f"HTTP/1.1 {otherwise}\r\n\r\nno {words[1].decode()}".encode()
        body = page if isinstance(page, str) else json.dumps(page)
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    return reply


def starts(answers: dict[bytes, bytes], otherwise: bytes = b"") -> Speaks:
    return lambda said: next((answer for start, answer in answers.items() if start in said[:64]), otherwise)


def mongo(document: bytes) -> Speaks:
    body = struct.pack("<I", len(document) + 5) + document + b"\0"
    message = struct.pack("<IIIIIB", 21 + len(body), 9, 1, 2013, 0, 0) + body
    return lambda said: message if struct.pack("<I", 2013) in said[:16] else b""


METRICS: dict[str, object] = {"/metrics": "# HELP up Whether it is.\n# TYPE up gauge\nup 1\n"}
DOCKER = {"/version": {"ApiVersion": "1.51", "MinAPIVersion": "1.24", "Version": "28.3.0"}}
ETCD = {"/version": {"etcdserver": "3.6.0", "etcdcluster": "3.6.0"}}
STATUS = {"connections": 0, "kernels": 2, "last_activity": "2026-11-27T08:00:00Z", "started": "2026-11-27T07:00:00Z"}
GREETING = struct.pack("<I", 74)[:3] + b"\0\x0a8.4.0\0" + bytes(66)
PODS = {"/pods": {"kind": "PodList", "apiVersion": "v1", "items": []}}
SHUT = "401 Unauthorized"

SPOKEN: dict[str, tuple[Speaks, str | None]] = {
    "redis": (starts({b"PING": b"+PONG\r\n"}), "redis"),
    "redis with a password": (starts({b"PING": b"-NOAUTH Authentication required.\r\n"}), None),
    "memcached": (starts({b"version": b"VERSION 1.6.31\r\n"}, b"ERROR\r\n"), "memcached"),
    "an Engine": (pages(DOCKER), "docker"),
    "etcd": (pages(ETCD | {"/v3/kv/range": {"header": {"cluster_id": "1"}, "count": "9"}}), "etcd"),
    "etcd with accounts": (pages(ETCD, otherwise="400 Bad Request"), None),
    "kubelet": (pages(PODS), "kubelet"),
    "consul": (pages({"/v1/agent/self": {"Config": {"Datacenter": "dc1"}, "Member": {}}}), "consul"),
    "consul with rights": (pages({"/v1/status/leader": "10.0.0.1:8300"}, otherwise="403 Forbidden"), None),
    "elasticsearch": (pages({"/": {"name": "n", "tagline": "You Know, for Search"}}), "elasticsearch"),
    "opensearch": (
        pages({"/": {"tagline": "The OpenSearch Project: https://opensearch.org/"}}),
        "elasticsearch",
    ),
    "a database of text with a password": (pages({}, otherwise=SHUT), None),
    "jupyter": (pages({"/api": {"version": "2.14"}, "/api/status": STATUS}), "jupyter"),
    "jupyter with a token": (pages({"/api": {"version": "2.14"}}, otherwise="403 Forbidden"), None),
    "ray": (pages({"/api/version": {"ray_version": "2.50.0"}, **METRICS}), "ray"),
    "figures": (pages(METRICS), "metrics"),
    "a web page": (pages({"/": "<html>metrics</html>"}), None),
    "postgresql that trusts": (starts({b"user\0": b"R\0\0\0\x08\0\0\0\0S\0\0\0\x16"}), "postgresql"),
    "postgresql with passwords": (starts({b"user\0": b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"}), None),
    "mysql": (lambda said: GREETING, None),
    "mongodb": (mongo(b"\x04databases\0\x05\0\0\0\0\x01ok\0" + struct.pack("<d", 1)), "mongodb"),
    "mongodb with accounts": (mongo(b"\x01ok\0" + struct.pack("<d", 0) + b"\x10code\0\x0d\0\0\0"), None),
    "a shell's door": (lambda said: b"SSH-2.0-OpenSSH_9.9\r\n", None),
}


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Something that does so with each connection to a port of the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as there:

        def run() -> None:
            while True:
                try:
                    connection, _ = there.accept()
                except OSError:
                    return
                threading.Thread(target=guarded, args=(connection,), daemon=True).start()

        def guarded(connection: socket.socket) -> None:
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return

        threading.Thread(target=run, daemon=True).start()
        yield there.getsockname()[1]
        there.shutdown(socket.SHUT_RDWR)


@contextmanager
def speaker(reply: Speaks, tls: Files | None = None) -> Iterator[int]:
    """Answers the first thing that each connection says, and closes it."""

    def serve(connection: socket.socket) -> None:
        if tls is None:
            connection.sendall(reply(connection.recv(4096)))
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate, tls.key)
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.sendall(reply(secured.recv(4096)))

    with listener(serve) as port:
        yield port


@pytest.mark.parametrize("who", SPOKEN)
def test_who_answers_without_authentication_is_known_by_the_answer_and_nobody_else(who: str) -> None:
    speaks, kind = SPOKEN[who]
    with speaker(speaks) as port:
        assert identify(SocketAddress("127.0.0.1", port)) == kind


def test_what_speaks_tls_alone_is_asked_by_tls(tmp_path: Path) -> None:
    with speaker(pages(PODS), Authority(tmp_path).sign("server")) as port:
        assert identify(SocketAddress("127.0.0.1", port)) == "kubelet"


def endless(connection: socket.socket) -> None:
    connection.recv(4096)
    while True:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"\x1b[2J\0\xff" * 4096)


def dripping(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"V")
        time.sleep(0.02)


def garbled_tls(connection: socket.socket) -> None:
    """A record of a handshake that is announced and never ends, after whatever was said."""
    connection.recv(4096)
    connection.sendall(b"\x16\x03\x03\x40\x00")
    while True:
        connection.sendall(bytes(1024))


HOSTILE = {
    "never ends": endless, "drips": dripping, "says nothing": lambda connection: time.sleep(30),
    "hangs up": lambda connection: None, "a handshake without end": garbled_tls,
}  # fmt: skip


@pytest.mark.parametrize("how", HOSTILE)
def test_nobody_who_listens_holds_up_a_look(how: str) -> None:
    with listener(HOSTILE[how]) as port:
        began = time.monotonic()
        assert identify(SocketAddress("127.0.0.1", port), began + 1.5) is None
        assert time.monotonic() - began < 2.5


class AllBut(Container[int]):
    """Every port but these: what else listens on this machine is not asked."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports

    def __contains__(self, port: object) -> bool:
        return port not in self._ports


@pytest.fixture
def server(services: Services) -> Iterator[RedisServer]:
    """A real one, without a password."""
    made = RedisServer(services.new_folder("listeners") / "redis", services.guard)
    made.start()
    yield made
    made.kill()


def test_a_look_leaves_out_what_is_the_agents_own_and_what_is_of_a_task(server: RedisServer) -> None:
    found = (Listener("redis", "127.0.0.1", server.port),)
    with speaker(pages(DOCKER)) as own:
        only = AllBut(server.port, own).__contains__
        assert scan(of_job=lambda pid: False, held=only).found == found
        assert scan(of_job=lambda pid: pid != os.getpid(), held=only).found == ()
        assert scan(of_job=lambda pid: False, held=AllBut(own).__contains__).found == ()


def test_a_watch_tells_what_has_come_and_what_is_over_and_asks_the_quiet_less_often(server: RedisServer) -> None:
    told: list[bool] = []
    watch = ListenerWatch(of_job=lambda pid: False, held=lambda: AllBut(server.port), changed=told.append, every_s=600)
    watch.look()
    watch.look()
    assert ([one.kind for one in watch.state], told) == (["redis"], [False])
    client = redis.Redis(port=server.port)
    client.config_set("requirepass", "secret")
    watch.look()
    assert (watch.state, told) == ((), [False, False])
    client = redis.Redis(port=server.port, password="secret")
    client.config_set("requirepass", "")
    for _ in range(5):
        watch.look()
        assert watch.state == (), "who wanted to know who asks is not asked at each look"
    watch.look()
    assert [one.kind for one in watch.state] == ["redis"]


def test_an_agent_reports_what_its_look_found(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Path("/proc/net/tcp").read_text().splitlines()
    (tmp_path / "tcp").write_text("\n".join([lines[0], *(line for line in lines if f":{server.port:04X} " in line)]))
    monkeypatch.setattr(ports, "TABLES", (tmp_path / "tcp",))  # what else listens on this machine is not asked
    told = {"NAME": "gpu01", "REDIS_URL": "redis://127.0.0.1:1/0", "PORTAL_PUBLIC_KEY": PortalKey.generate().public,
            "STATE_DIR": str(tmp_path), "RUNTIME": "process", "GPUS": "simulated:1xA100-80GB",
            "LISTENERS_EVERY_S": "0.2"}  # fmt: skip
    key_make(tmp_path / "node.key")
    options = options_load([], {f"BERTH_NODE_{name}": value for name, value in told.items()})
    agent = Agent(options, Celery("agent", set_as_current=False), SystemClock())
    agent.open()
    try:
        found = (Listener("redis", "127.0.0.1", server.port),)
        wait_until(lambda: agent._reporter.report().inventory.listeners == found, "the first look")
    finally:
        agent.close()


def test_a_check_warns_of_each_with_who_reaches_it(server: RedisServer, tmp_path: Path) -> None:
    told = {"NAME": "gpu01", "REDIS_URL": "redis://localhost", "RUNTIME": "process", "STATE_DIR": str(tmp_path),
            "PORTAL_PUBLIC_KEY": PortalKey.generate().public, "LISTENERS_EVERY_S": "600"}  # fmt: skip
    environ = {f"BERTH_NODE_{name}": value for name, value in told.items()}
    (line,) = listener_findings(options_load([], environ), AllBut(server.port))
    assert (line.name, line.verdict) == ("listeners", Verdict.WARNING)
    assert line.text == (
        f"redis at 127.0.0.1:{server.port} answers without authentication: tasks of every job of several tasks here "
        "reach it"
    )
    (line,) = listener_findings(options_load([], environ), AllBut())
    assert (line.verdict, line.text) == (Verdict.OK, "of 0 that were asked none answer without authentication")
    (line,) = listener_findings(options_load([], environ | {"BERTH_NODE_LISTENERS_EVERY_S": "0"}), AllBut(server.port))
    assert line.verdict is Verdict.OK


@pytest.mark.docker
def test_a_check_leaves_out_what_a_task_listens_with_on_the_host_network(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    of_task, other = free_port(), free_port()
    with closing(docker.DockerClient(base_url=docker_engine.url, version="auto")) as client:
        for port, labels in ((of_task, {LABEL.ATTEMPT: "a-task"}), (other, {})):
            words = ["nc", "-ll", "-p", str(port), "-e", "printf", "+PONG\\r\\n"]
            client.containers.run("busybox", words, labels=labels, network_mode="host", detach=True)
    wait_until(lambda: ports_listening(of_task, of_task) and ports_listening(other, other), "both containers to listen")
    told = {"NAME": "gpu01", "REDIS_URL": "redis://localhost", "DOCKER_URL": docker_engine.url,
            "PORTAL_PUBLIC_KEY": PortalKey.generate().public, "STATE_DIR": str(tmp_path)}  # fmt: skip
    options = options_load([], {f"BERTH_NODE_{name}": value for name, value in told.items()})
    (line,) = listener_findings(options, AllBut(of_task, other))
    assert f":{other} answers without authentication: every job here reaches it" in line.text

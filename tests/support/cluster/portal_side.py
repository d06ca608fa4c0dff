"""The portal's end of the lanes to one agent: signs lists of orders, reads what the agent reports.

It speaks the contract over a real Redis and knows no database, so that an agent can be tried alone.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import docker
from celery import Celery

from nodes.agent.config.options import key_make
from nodes.protocol.envelope import Envelope, EnvelopeExpired, PortalKey, envelope_open, envelope_seal, envelope_sender
from nodes.protocol.logs import MARK, LogRecord, records_decode, verified_batch
from nodes.protocol.messages import (
    ContainerReport,
    ContainerSpec,
    Desired,
    Limits,
    Mount,
    Order,
    Report,
    SshAccess,
    Stop,
    decode,
    encode,
    spec_digest,
)
from nodes.protocol.names import CELERY_DEFAULTS, DESIRED_TASK, REPORTS_QUEUE, log_stream, node_queue, transport_options
from nodes.protocol.parking import GpuWish
from nodes.protocol.states import ContainerState, Phase, StopReason
from tests.support.run.waiting import wait_until
from tests.support.services.forks import Forks
from tests.support.services.guard import Guard
from tests.support.services.processes import Process
from tests.support.services.redis_server import RedisServer

CLUSTER = "berth"
PROMISED_CPUS, PROMISED_GB = 1000, 100_000
"""More than any machine that runs the tests has."""
STREAM_BYTES = 1 << 20
"""What of a log lies in its stream beyond what is archived."""
COUNT = "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; {pause}done"
"""A script that counts its lines; ``lines`` below is what it prints."""
T = TypeVar("T")
HERE = Path(__file__).parents[3]


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def spec_of(script: str, **changes: Any) -> ContainerSpec:
    """A small spec for `script`: no GPU, no mount, profile `user`, image `busybox:latest`."""
    plain = ContainerSpec(
        attempt=str(uuid.uuid4()),
        job="alice/hello#1",
        role="worker",
        index=0,
        image="busybox:latest",
        digest=None,
        script=script,
        env={},
        gpus=(),
        limits=Limits(cpu_milli=500, memory_mb=256, shm_mb=64, pids=512),
        profile="user",
        uid=5000,
        gid=5000,
        groups=(),
        user_name="alice",
        workdir="/workspace",
        network="bridge",
    )
    return replace(plain, **changes)


@dataclass
class PortalSide:
    """Orders down, reports up, for the node `name`, whose agent is the process `agent`."""

    redis: RedisServer
    folder: Path
    guard: Guard
    env: dict[str, str]
    forks: Forks | None
    name: str = "gpu01"
    key: PortalKey = field(default_factory=PortalKey.generate)
    generation: int = 0
    orders: dict[str, Order] = field(default_factory=dict)
    specs: dict[str, ContainerSpec] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """Where the code of an attempt is fetched."""
    ssh: dict[str, SshAccess] = field(default_factory=dict)
    """By what an attempt is reached by SSH."""

    def __post_init__(self) -> None:
        self.node_key = key_make(self.folder / self.name / "node.key")
        self.app = Celery("portal", broker=self.redis.url, set_as_current=False)
        self.app.conf.update(CELERY_DEFAULTS, broker_transport_options=transport_options())
        self.agent = self._process()
        self.storage.mkdir()

    @property
    def storage(self) -> Path:
        """The one folder below which the node allows mounts."""
        return self.folder / "storage"

    @property
    def state(self) -> Path:
        """The agent's state folder."""
        return self.folder / self.name

    def start(self) -> None:
        """Starts the agent and waits for its first report."""
        before = len(self.reports)
        self.agent.start()
        self._until(lambda: self.poll() and len(self.reports) > before, f"a report of {self.name}")

    def clear(self) -> None:
        """Ends and removes every task; starts what a test has killed."""
        if not self.redis.answers():
            self.redis.start()
        if not self.agent.is_running():
            self.start()
        for report in self.reports[-1].containers:
            self.end(report.attempt)
        self._until(lambda: (report := self.poll()) and not report.containers, "the last task to be removed")
        self.orders.clear()
        self.reports[:-1] = []

    def docker(self) -> AbstractContextManager[docker.DockerClient]:
        """A client of the Engine under the agent."""
        return closing(docker.DockerClient(base_url=self.env["BERTH_NODE_DOCKER_URL"], version="auto"))

    def tag(self, image: str, name: str) -> None:
        """Gives an image on the node one more name."""
        with self.docker() as client:
            client.images.get(image).tag(name)

    def image_id(self, image: str) -> str:
        with self.docker() as client:
            return str(client.images.get(image).id)

    def gpu(self, index: int) -> str:
        """UUID of one of the node's GPUs."""
        return self.reports[-1].inventory.gpus[index].uuid

    def shared(self, **changes: Any) -> tuple[Path, tuple[Mount, ...]]:
        """A new folder on the node's storage and its mount at `/job`."""
        source = self.storage / str(uuid.uuid4())
        mount = Mount(storage="home", root=str(self.storage), source=str(source), target="/job", create=True)
        return source, (replace(mount, **changes),)

    def _process(self) -> Process:
        state = self.state
        env = {
            **os.environ,
            "BERTH_NODE_NAME": self.name,
            "BERTH_NODE_CLUSTER": CLUSTER,
            "BERTH_NODE_REDIS_URL": self.redis.url,
            "BERTH_NODE_STATE_DIR": str(state),
            "BERTH_NODE_PORTAL_PUBLIC_KEY": self.key.public,
            "BERTH_NODE_GPUS": "simulated:4xA100-80GB",
            "BERTH_NODE_SIMULATED_CPUS": str(PROMISED_CPUS),
            "BERTH_NODE_SIMULATED_MEMORY_GB": str(PROMISED_GB),
            "BERTH_NODE_HOME_DIR": str(state / "homes"),
            "BERTH_NODE_MOUNT_ROOTS": str(self.storage),
            "BERTH_NODE_REPORT_EVERY_S": "0.5",
            "BERTH_NODE_DISK_CLEAN": "off",
            "BERTH_NODE_LISTENERS_EVERY_S": "0",
            "BERTH_NODE_DISK_FULL_PERCENT": "0",
            "BERTH_NODE_LEASE_STILL_S": "2",
            **self.env,
        }
        command = [sys.executable, "-m", "nodes"]
        return Process(
            self.name, command, guard=self.guard, log=state / "agent.log", env=env, cwd=HERE, forks=self.forks
        )

    # ------------------------------------------------------------ down

    def order(self, spec: ContainerSpec, phase: Phase, *, send: bool = True) -> str:
        """Puts an attempt on the list in a phase and sends the list. Returns the attempt's id."""
        self.generation += 1
        spec_hash = spec_digest(encode(spec))
        self.specs[spec_hash] = spec
        old = self.orders.get(spec.attempt)
        self.orders[spec.attempt] = Order(
            attempt=spec.attempt,
            phase=phase,
            spec_hash=spec_hash,
            since=self.generation,
            archived=old.archived if old else 0,
        )
        if send:
            self.send()
        return spec.attempt

    def run(self, script: str, **changes: Any) -> str:
        """Orders a task to run at once. Returns the attempt's id."""
        return self.order(spec_of(script, **changes), Phase.RUN)

    def stop(self, attempt: str, grace_s: int = 30, message: str = "", reason: StopReason = StopReason.USER) -> None:
        order = self.orders[attempt]
        stop = Stop(reason=reason, grace_s=grace_s, message=message)
        self._change(replace(order, phase=Phase.STOP, stop=stop))

    def turn(self, attempt: str, gpu: GpuWish, **changes: Any) -> None:
        """Orders what is wanted of its GPU, in the next turn."""
        order = self.orders[attempt]
        self._change(replace(order, turn=order.turn + 1, gpu=gpu, **changes))

    def end(self, attempt: str) -> None:
        """Orders an attempt to be removed, also one that was never ordered."""
        order = self.orders.get(attempt) or Order(attempt=attempt, phase=Phase.REMOVE, spec_hash="", since=0)
        self._change(replace(order, phase=Phase.REMOVE, spec=None))

    def _change(self, order: Order) -> None:
        self.generation += 1
        self.orders[order.attempt] = replace(order, since=self.generation)
        self.send()

    def forget(self, attempt: str) -> None:
        """Takes an attempt off the list."""
        self.generation += 1
        self.orders.pop(attempt)
        self.send()

    def acknowledge(self, attempt: str, archived: int) -> None:
        self.orders[attempt] = replace(self.orders[attempt], archived=archived)
        self.send()

    def desired(self, answers: int = 0) -> Desired:
        known = self.reports[-1].specs_known if self.reports else ()
        orders = tuple(
            order if order.spec_hash in {*known, ""} else replace(order, spec=self.sealed(self.specs[order.spec_hash]))
            for order in map(self._as_it_is_now, self.orders.values())
        )
        return Desired(cluster=CLUSTER, node=self.name, generation=self.generation, orders=orders, answers=answers)

    def _as_it_is_now(self, order: Order) -> Order:
        order = replace(order, ssh=self.ssh.get(order.attempt))
        url = self.addresses.get(order.attempt)
        return replace(order, code=PortalKey.seal_for(self.node_key.public, url.encode())) if url else order

    def envelope(self, desired: Desired, *, lives_s: float = 15.0) -> str:
        expires = int((time.time() + lives_s) * 1000)
        body = encode(desired).decode()
        return envelope_seal(self.key, Envelope("portal", self.name, "desired", expires, body))

    def send(self, desired: Desired | None = None) -> None:
        self.post(self.envelope(desired or self.desired()))

    def post(self, text: str) -> None:
        """Puts any text into the node's queue as a list of orders."""
        self.app.send_task(DESIRED_TASK, args=[text], queue=node_queue(self.name), expires=15)

    def sealed(self, spec: ContainerSpec) -> str:
        return PortalKey.seal_for(self.node_key.public, encode(spec))

    # ------------------------------------------------------------ up

    def poll(self) -> Report | None:
        """Takes all waiting reports in and answers the newest, as the portal does. Returns the newest."""
        with self.redis.client() as client:
            waiting = client.lrange(REPORTS_QUEUE, 0, -1)
            mine = [(raw, text) for raw in waiting if envelope_sender(text := _argument(raw)) == self.name]
            for raw, _ in mine:
                client.lrem(REPORTS_QUEUE, 1, raw)
        fresh = [report for _, text in reversed(mine) if (report := self._report(text))]
        self.reports += fresh
        if fresh:
            self.send(self.desired(answers=fresh[-1].seq))
        return self.reports[-1] if self.reports else None

    def container(self, attempt: str) -> ContainerReport | None:
        report = self.poll()
        found = [c for c in report.containers if c.attempt == attempt] if report else []
        return found[0] if found else None

    def wait(self, attempt: str, what: Callable[[ContainerReport], object], deadline_s: float = 30) -> ContainerReport:
        """Waits until the newest report shows the attempt so that `what` is true of it."""

        def shown() -> ContainerReport | None:
            container = self.container(attempt)
            return container if container is not None and what(container) else None

        return self._until(shown, f"attempt {attempt}", deadline_s)

    def _until(self, condition: Callable[[], T | None | bool], what: str, deadline_s: float = 30.0) -> T:
        """Waits; what the agent said last belongs to a failure."""
        try:
            return wait_until(condition, what, deadline_s=deadline_s, every_s=0.02)
        except AssertionError as error:
            seen = [c for report in self.reports[-1:] for c in report.containers]
            raise AssertionError(
                f"{error}\nwanted {self.generation}, seen {seen}\n{self.agent.tail()[-4000:]}"
            ) from None

    def wait_state(self, attempt: str, state: ContainerState, deadline_s: float = 30) -> ContainerReport:
        return self.wait(attempt, lambda c: c.state == state, deadline_s)

    def wait_end(self, attempt: str, deadline_s: float = 30) -> ContainerReport:
        """Waits for the end of the attempt and of its log, and until its stream has all of that: the report that
        tells the end and the log's last bytes travel on lanes of their own."""
        ended = self.wait(attempt, lambda c: c.log_complete, deadline_s)
        if ended.log_end - self.orders[attempt].archived <= STREAM_BYTES:
            self._until(lambda: self._stream_end(attempt) >= ended.log_end, f"the log of {attempt} in its stream")
        return ended

    def _stream_end(self, attempt: str) -> int:
        with self.redis.client() as client:
            newest = client.xrevrange(log_stream(self.name, attempt), count=1)
        return int(newest[0][0].split(b"-")[0]) if newest else 0

    def states(self, attempt: str) -> list[ContainerState]:
        """Every state that was reported of the attempt, in order, once each."""
        seen = [c.state for report in self.reports for c in report.containers if c.attempt == attempt]
        return list(dict.fromkeys(seen))

    def records(self, attempt: str) -> list[LogRecord]:
        """The attempt's log as it lies in its stream, every signature checked."""
        with self.redis.client() as client:
            entries = client.xrange(log_stream(self.name, attempt))
        data = b""
        for entry, fields in entries:
            start, batch = verified_batch(self.node_key.public, attempt, int(entry.split(b"-")[0]), fields)
            assert start == len(data)
            data += batch
        return list(records_decode(data))

    def output(self, attempt: str) -> str:
        """What the task itself wrote, without Berth's own lines."""
        return b"".join(record.payload for record in self.records(attempt) if record.stream != MARK).decode()

    def text(self, attempt: str) -> str:
        return b"".join(record.payload for record in self.records(attempt)).decode()

    def _report(self, text: str) -> Report | None:
        """None for one that has lain there for too long, which the portal drops, too."""
        now_ms, public = int(time.time() * 1000), self.node_key.public
        try:
            body = envelope_open(text, public=public, sender=self.name, to="portal", kind="report", now_ms=now_ms)
        except EnvelopeExpired:
            return None
        return decode(body, Report)


def _argument(raw: bytes) -> str:
    """The only argument of a Celery message as it lies in its queue."""
    args, _, _ = json.loads(base64.b64decode(json.loads(raw)["body"]))
    return str(args[0])

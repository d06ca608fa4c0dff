"""With one node's key and its accounts in Redis: what speaks of another node is refused, whichever lane it takes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from django.utils import timezone

from nodes.agent.attempts.orders import tasks_register
from nodes.agent.clock import SystemClock
from nodes.protocol.accounts import reports_url
from nodes.protocol.envelope import Envelope, EnvelopeForged, PortalKey, envelope_seal
from nodes.protocol.logs import STDOUT, LogRecord, record_encode, signed_batch
from nodes.protocol.messages import ContainerReport, Desired, Exit, GpuSample, Sample, encode
from nodes.protocol.names import DESIRED_TASK, REPORT_TASK, log_stream, node_queue, session_requests
from nodes.protocol.states import Cause, ContainerState, Phase
from portal.celery import app as portal_app
from portal.cluster.selectors.gpus import gpu_rows
from portal.common.lanes import LaneTransport, report_message
from portal.hardware.models import Gpu, Node
from portal.hardware.selectors.live import gpus_live
from portal.hardware.services.redis_accounts import redis_address
from portal.jobs.models import TaskAttempt
from portal.logs.stream import ForgedEntry, LogOf, read_stream
from portal.scheduler.reports import report_take
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)


class Thief:
    """Whoever has taken over gpu01: its key, its accounts. gpu02 is the other server."""

    def __init__(self) -> None:
        self.own, self.victim = ScriptedNode("gpu01"), ScriptedNode("gpu02")
        assert self.victim.report()
        address = redis_address(Node.objects.get(name="gpu01"))
        self.redis = redis.Redis.from_url(address)
        self.reporter = redis.Redis.from_url(reports_url(address, "gpu01"))

    def envelope(self, *, sender: str, to: str, kind: str, body: bytes) -> str:
        """Signed with the key that it has."""
        soon = int(time.time() * 1000) + 15_000
        return envelope_seal(
            self.own.key, Envelope(sender=sender, to=to, kind=kind, expires_ms=soon, body=body.decode())
        )


@pytest.fixture
def thief(redis_server: RedisServer) -> Iterator[Thief]:
    made = Thief()
    yield made
    made.redis.close()
    made.reporter.close()


def message(task: str, *args: str, **embedded: Any) -> bytes:
    """A Celery message as it lies in a queue."""
    body = json.dumps([args, {}, embedded or {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return json.dumps({
        "body": base64.b64encode(body.encode()).decode(),
        "content-type": "application/json", "content-encoding": "utf-8",
        "headers": {"task": task, "id": "1", "lang": "py"},
        "properties": {"body_encoding": "base64", "delivery_info": {}, "delivery_tag": "1"},
    }).encode()  # fmt: skip


def test_orders_for_another_node_cannot_be_put_into_its_queue_and_would_not_be_obeyed(thief: Thief) -> None:
    order = encode(Desired(cluster="berth", node="gpu02", generation=1 << 40, orders=(), answers=0))
    forged = thief.envelope(sender="portal", to="gpu02", kind="desired", body=order)
    with pytest.raises(redis.exceptions.NoPermissionError):
        thief.redis.lpush(node_queue("gpu02"), message(DESIRED_TASK, forged))
    taken: list[Desired] = []
    agent = Celery("agent", set_as_current=False)
    key = PortalKey.generate()
    tasks_register(agent, node="gpu02", portal_public_key=key.public, clock=SystemClock(), take=taken.append)
    agent.tasks[DESIRED_TASK](forged)
    assert taken == []
    soon = int(time.time() * 1000) + 15_000
    to_thief = Envelope(sender="portal", to="gpu01", kind="desired", expires_ms=soon, body=order.decode())
    agent.tasks[DESIRED_TASK](envelope_seal(key, to_thief))
    assert taken == [], "what the portal itself signed for gpu01 is nothing to gpu02"
    right = Envelope(sender="portal", to="gpu02", kind="desired", expires_ms=soon, body=order.decode())
    agent.tasks[DESIRED_TASK](envelope_seal(key, right))
    assert len(taken) == 1


def test_reports_of_another_node_are_refused(thief: Thief, caplog: pytest.LogCaptureFixture) -> None:
    columns = ("seq", "boot", "inventory", "last_report_at")
    before = Node.objects.values(*columns).get(name="gpu02")
    theirs, thief.victim.key = thief.victim.key, thief.own.key
    assert not thief.victim.report(), "says that it is gpu02, signed with another key"
    assert "the signature does not belong to the registered key" in caplog.text
    thief.victim.key = theirs
    assert not report_take(text=thief.own.report_text(node="gpu02"), now=timezone.now())
    assert "it speaks for gpu02" in caplog.text
    assert Node.objects.values(*columns).get(name="gpu02") == before
    assert thief.victim.report()


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"state": ContainerState.TERMINATED, "exit": Exit(cause=Cause.EXITED, code=0)}, id="has ended"),
        pytest.param({"state": ContainerState.RUNNING, "log_end": 1 << 40}, id="has another log"),
    ],
)
def test_a_container_of_another_node_cannot_be_reported_as_ones_own(world: World, claims: dict[str, Any]) -> None:
    """The reports are the thief's own and signed with its key; what they list is another server's."""
    thief, victim = world.node("gpu01", gpus=1), world.node("gpu02", gpus=2)
    job = world.submit(gpu=2)
    world.settle()
    (order,) = victim.desired().orders
    before = TaskAttempt.objects.values().get(pk=order.attempt)
    assert before["state"] == ContainerState.RUNNING
    thief.generation = victim.generation + 1000
    thief.containers[order.attempt] = ContainerReport(
        attempt=order.attempt, spec_hash=order.spec_hash, generation=1 << 60, gpus=("GPU-gpu02-0", "GPU-gpu02-1"),
        log_complete=True, **claims,
    )  # fmt: skip
    assert thief.report()
    world.cycle()
    assert TaskAttempt.objects.values().get(pk=order.attempt) == before
    job.refresh_from_db()
    assert (job.state, job.retries) == ("running", 0)
    assert set(Gpu.objects.filter(node__name="gpu02").values_list("fault", flat=True)) == {""}
    assert [*thief.row.strangers] == [order.attempt]
    assert thief.desired().orders == ()

    del thief.containers[order.attempt]
    victim.finish()
    assert [one.phase for one in victim.desired().orders] == [Phase.REMOVE]
    assert thief.report(), "a list that does not name what is to be removed, and an answer to the newest orders"
    assert TaskAttempt.objects.get(pk=order.attempt).removed_at is None
    world.settle()
    assert TaskAttempt.objects.get(pk=order.attempt).removed_at
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_log_batches_of_another_node_are_refused(thief: Thief, redis_server: RedisServer) -> None:
    stream, data = log_stream("gpu02", "a2"), record_encode(LogRecord(1, STDOUT, b"all is well\n"))
    forged: Any = signed_batch(thief.own.key, "a2", 0, data)
    with pytest.raises(redis.exceptions.NoPermissionError):
        thief.redis.xadd(stream, forged, id=f"{len(data)}-0")
    log = LogOf(attempt="a2", node="gpu02", public_key=thief.victim.key.public)
    with redis_server.client() as root:
        root.xadd(stream, forged, id=f"{len(data)}-0")
        with pytest.raises(ForgedEntry):
            read_stream(root, log, 0, 1 << 20)
        root.delete(stream)
        root.xadd(stream, signed_batch(thief.victim.key, "a2", 0, data), id=f"{len(data)}-0")
        assert read_stream(root, log, 0, 1 << 20).data == data


def test_what_is_sealed_for_another_node_stays_closed(thief: Thief) -> None:
    sealed = PortalKey.seal_for(thief.victim.key.public, b'{"env": {"TOKEN": "s3cret"}}')
    with pytest.raises(EnvelopeForged):
        thief.own.key.unseal(sealed)
    assert thief.victim.key.unseal(sealed) == b'{"env": {"TOKEN": "s3cret"}}'
    with pytest.raises(redis.exceptions.NoPermissionError):
        thief.redis.brpop([node_queue("gpu02")], timeout=1)


def test_streams_of_another_node_can_neither_be_read_nor_written(thief: Thief, redis_server: RedisServer) -> None:
    with redis_server.client() as root:
        for stream in (log_stream("gpu02", "a2"), session_requests("gpu02"), "berth:node:gpu02:session:s1:up"):
            root.xadd(stream, {"frame": b"x"}, id="1-0")
            for tried in (
                lambda key=stream: thief.redis.xread({key: "0"}),
                lambda key=stream: thief.redis.xrevrange(key),
                lambda key=stream: thief.redis.xadd(key, {"frame": b"y"}),
                lambda key=stream: thief.redis.xtrim(key, maxlen=0, approximate=False),
                lambda key=stream: thief.redis.delete(key),
            ):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    tried()
            assert root.xlen(stream) == 1


def test_other_nodes_reports_can_neither_be_taken_nor_removed(thief: Thief, redis_server: RedisServer) -> None:
    with redis_server.client() as root:
        root.lpush("reports", "of gpu02")
        for client in (thief.redis, thief.reporter):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.brpop(["reports"], timeout=1)
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.delete("reports")
        assert root.lrange("reports", 0, -1) == [b"of gpu02"]


PUSHED: dict[str, Any] = {
    "no object": [],
    "nothing": {},
    "no task": {"headers": {}, "body": "", "properties": {}},
    "a task of another kind": {"headers": {"task": ["reports.node_report"]}, "body": ""},
    "a task of another lane": {"headers": {"task": "scheduler.look"}, "body": "W1tdLHt9LHt9XQ=="},
    "a body that is none": {"headers": {"task": REPORT_TASK}, "body": "%%"},
    "a body that is not three things": {"headers": {"task": REPORT_TASK}, "body": "W10="},
    "words that are no text": {"headers": {"task": REPORT_TASK}, "body": "W1sxXSx7fSx7fV0="},
    "an end that is no time": {"headers": {"task": REPORT_TASK, "expires": "soon"}, "body": "W1tdLHt9LHt9XQ=="},
}


@pytest.mark.parametrize("pushed", PUSHED.values(), ids=list(PUSHED))
def test_what_is_no_report_is_none(pushed: Any) -> None:
    with pytest.raises(ValueError, match="."):
        report_message(pushed)


def test_of_what_is_pushed_as_a_report_nothing_but_its_words_is_taken() -> None:
    callback = {"task": "scheduler.look", "args": [], "kwargs": {}, "options": {"queue": "trap"}}
    embedded = {"callbacks": [callback], "errbacks": [callback], "chain": [callback], "chord": callback}
    pushed = json.loads(message(REPORT_TASK, "the envelope", **embedded))
    pushed["headers"] |= {"eta": "2099-01-01T00:00:00", "retries": 9, "compression": "zlib", "timelimit": [1, 1],
                          "expires": "2099-01-01T00:00:00+00:00"}  # fmt: skip
    pushed["properties"] |= {"delivery_info": {"exchange": "", "routing_key": "scheduler"}, "reply_to": "trap"}
    made = report_message(pushed)
    assert json.loads(base64.b64decode(made["body"])) == [["the envelope"], {}, {}]
    assert made["headers"].keys() == {"lang", "task", "id", "expires"}
    assert made["headers"]["expires"] == "2099-01-01T00:00:00+00:00"
    assert made["properties"]["delivery_info"] == {"exchange": "", "routing_key": "reports"}
    assert made["properties"].keys() == {"body_encoding", "delivery_info", "delivery_tag"}
    assert made["properties"]["delivery_tag"] != pushed["properties"]["delivery_tag"]


def test_each_worker_takes_messages_in_by_this_door() -> None:
    with portal_app.connection_for_read() as connection:
        assert isinstance(connection.transport, LaneTransport)


def test_a_reading_speaks_of_its_own_nodes_gpus_alone(thief: Thief) -> None:
    gpus = (GpuSample(uuid="GPU-gpu02-0", utilisation=0), GpuSample(uuid="GPU-gpu01-0", utilisation=5))
    reading = Sample(at_ms=int(time.time() * 1000), gpus=gpus)
    assert report_take(text=thief.own.report_text(sample=reading), now=timezone.now())
    live = gpus_live(nodes=["gpu01", "gpu02"])
    assert ("gpu02", "GPU-gpu02-0") not in live
    assert live["gpu01", "GPU-gpu01-0"].reading.utilisation == 5
    ids = list(Gpu.objects.filter(node__name="gpu02").values_list("pk", flat=True))
    assert [row.live for row in gpu_rows(ids=ids)] == [None] * len(ids)


def test_a_reading_of_no_possible_time_hides_nothing_of_others(thief: Thief) -> None:
    theirs = Sample(at_ms=int(time.time() * 1000), gpus=(GpuSample(uuid="GPU-gpu02-0", utilisation=7),))
    assert report_take(text=thief.victim.report_text(sample=theirs), now=timezone.now())
    for at_ms in (1 << 60, -(1 << 62)):
        never = Sample(at_ms=at_ms, gpus=(GpuSample(uuid="GPU-gpu01-0"),))
        assert report_take(text=thief.own.report_text(sample=never), now=timezone.now())
        assert set(gpus_live(nodes=["gpu01", "gpu02"])) == {("gpu02", "GPU-gpu02-0")}

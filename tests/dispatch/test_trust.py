"""With one node's key and its accounts in Redis: what speaks of another node is refused, whichever lane it takes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.app.trace import trace_task_ret
from django.utils import timezone

from nodes.protocol import (
    DESIRED_TASK,
    REPORT_TASK,
    STDOUT,
    Desired,
    Envelope,
    EnvelopeForged,
    LogRecord,
    PortalKey,
    encode,
    envelope_seal,
    log_stream,
    node_queue,
    record_encode,
    reports_url,
    session_requests,
    signed_batch,
)
from nodes.tasks import tasks_register
from portal.celery import app as portal_app
from portal.clusters.models import Node
from portal.clusters.services import redis_address
from portal.common.lanes import ReportsOnlyStep
from portal.dispatch.reports import report_take
from portal.jobs.logs.stream import ForgedEntry, LogOf, read_stream
from tests.support.redis_server import RedisServer
from tests.support.scripted_node import ScriptedNode

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
    tasks_register(agent, node="gpu02", portal_public_key=key.public, clock=_Now(), take=taken.append)
    agent.tasks[DESIRED_TASK](forged)
    assert taken == []
    soon = int(time.time() * 1000) + 15_000
    to_thief = Envelope(sender="portal", to="gpu01", kind="desired", expires_ms=soon, body=order.decode())
    agent.tasks[DESIRED_TASK](envelope_seal(key, to_thief))
    assert taken == [], "what the portal itself signed for gpu01 is nothing to gpu02"
    right = Envelope(sender="portal", to="gpu02", kind="desired", expires_ms=soon, body=order.decode())
    agent.tasks[DESIRED_TASK](envelope_seal(key, right))
    assert len(taken) == 1


class _Now:
    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


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


def test_what_is_pushed_as_a_report_starts_no_other_task(thief: Thief, redis_server: RedisServer) -> None:
    callback = {"task": "scheduler.look", "args": [], "kwargs": {}, "options": {"queue": "trap"}, "immutable": True,
                "subtask_type": None}  # fmt: skip
    embedded = {"callbacks": [callback], "errbacks": [callback], "chain": [callback], "chord": None}
    portal_app.loader.import_default_modules()
    request = {"id": "1", "task": REPORT_TASK, "lang": "py", **embedded}
    body: Any = (("not an envelope",), {}, embedded)
    app: Any = portal_app
    failed, _, _ = trace_task_ret(REPORT_TASK, "1", dict(request), body, None, None, app=app)
    assert failed == 0
    with redis_server.client() as root:
        assert root.exists("trap") == 0
    worker = SimpleNamespace(app=SimpleNamespace(
        tasks=portal_app.tasks.__class__(dict(portal_app.tasks)),
        amqp=SimpleNamespace(queues=SimpleNamespace(consume_from={"reports": None})),
    ))  # fmt: skip
    step = ReportsOnlyStep(worker)
    assert step.include_if(worker)
    step.start(worker)
    assert REPORT_TASK in worker.app.tasks
    assert {name.partition(".")[0] for name in worker.app.tasks} == {"reports"}

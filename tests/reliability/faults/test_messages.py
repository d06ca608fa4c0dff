"""Real messages sent again, late, doubled and shuffled; forged ones. The jobs do not notice."""

import base64
import json
import random
import time
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery

from nodes.protocol.envelope import Envelope, NodeKey, PortalKey, envelope_seal
from nodes.protocol.messages import Desired, Exit, Report, decode, encode
from nodes.protocol.names import DESIRED_TASK, REPORT_TASK, REPORTS_QUEUE, node_queue
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.reliability.faults.recorder import Recorder, recorded
from tests.support.cluster.invariants import assert_all_is_well, assert_log, counted, counting
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until

NODE = "here"
LANES = (REPORTS_QUEUE, node_queue(NODE))
TABLES = ("jobs_job", "jobs_jobattempt", "jobs_task", "jobs_allocation", "jobs_jobevent")


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Person:
    return alice(embedded_stack)


def rows(stack: Stack) -> dict[str, list[tuple[Any, ...]]]:
    return {table: stack.sql(f"SELECT * FROM {table} ORDER BY id") for table in TABLES}


def test_messages_that_come_again_late_and_in_any_order_change_nothing(embedded_stack: Stack, user: Person) -> None:
    with recorded(embedded_stack.redis) as recorder:
        job = user.run(*counting(0.1), instances=2, name="twice")
        user.wait_line(job, "line 5")
        recorder.again(_shuffled(recorder))
        assert user.wait(job, "succeeded")["retries"] == 0
        assert_all_is_well(user, [job])
        before = rows(embedded_stack)
        recorder.again(_shuffled(recorder))
        recorder.again(_shuffled(recorder))
        next_job = user.run("true", name="next")
        user.wait(next_job, "succeeded")
    after = rows(embedded_stack)
    for table, earlier in before.items():
        assert after[table][: len(earlier)] == earlier
    for task in range(2):
        assert_log(user, job, counted(), task)
    assert_all_is_well(user, [job, next_job])


def _shuffled(recorder: Recorder) -> list[tuple[str, bytes]]:
    """Every message between portal and node so far, twice."""
    messages = [message for message in recorder.messages if message[0] in LANES] * 2
    assert {queue for queue, _ in messages} == set(LANES)
    random.Random(7).shuffle(messages)
    return messages


def test_a_report_that_the_node_has_not_signed_is_refused(embedded_stack: Stack, user: Person) -> None:
    stack = embedded_stack
    with recorded(stack.redis) as recorder:
        job = user.run(*counting(0.2), name="trusted")
        user.wait_line(job, "line 2")
        report = wait_until(lambda: _newest_report(recorder, str(user.task_attempts(job)[0]["id"])), "a report of it")
    exit_ = Exit(cause=Cause.EXITED, code=1)
    ended = tuple(replace(one, state=ContainerState.TERMINATED, exit=exit_) for one in report.containers)
    forged = replace(report, seq=report.seq + 1000, containers=ended)
    _send(stack, REPORT_TASK, REPORTS_QUEUE, _sealed(NodeKey.generate(), forged, NODE, "portal", "report"))
    _send(stack, REPORT_TASK, REPORTS_QUEUE, "nonsense")
    wait_until(lambda: _told(stack, "reports", "report refused") == 2, "both to be refused")
    assert user.job(job)["state"] == "running"
    user.wait(job, "succeeded")
    assert_log(user, job, counted())
    assert_all_is_well(user, [job])


NO_MESSAGES = (
    b"no JSON",
    b"\xff\x00",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b'{"body": "", "properties": {}}',
    b'{"body": "", "headers": {"task": []}, "properties": {"delivery_tag": "1", "delivery_info": {}}}',
    b'{"body": "bm9uZQ==", "headers": {"task": "reports.node_report", "id": "1"}, "properties": {"delivery_tag": [],'
    b' "body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": "scheduler"}}}',
    b'{"__type__": "uuid", "__value__": {}}',
)
"""What a node can push onto the queue of reports, to which its account may."""


def test_what_is_no_message_ends_no_worker(embedded_stack: Stack, user: Person) -> None:
    stack = embedded_stack
    before = stack.processes["reports"].pid
    with stack.redis.client() as client:
        client.lpush(REPORTS_QUEUE, *NO_MESSAGES)
        wait_until(lambda: _told(stack, "reports", "is no message, and was dropped") >= len(NO_MESSAGES), "all dropped")
        assert client.hlen("berth:portal:unacked") == 0
    assert stack.processes["reports"].is_running()
    assert stack.processes["reports"].pid == before
    job = user.run("true", name="after")
    user.wait(job, "succeeded")


def test_an_order_that_the_portal_has_not_signed_is_refused(embedded_stack: Stack, user: Person) -> None:
    stack = embedded_stack
    with recorded(stack.redis) as recorder:
        job = user.run(*counting(0.2), name="obeyed")
        user.wait_line(job, "line 2")
        desired = wait_until(lambda: _newest_desired(recorder), "an order of it")
    stops = tuple(replace(order, phase=Phase.STOP, spec=None) for order in desired.orders)
    forged = replace(desired, generation=desired.generation + 1000, orders=stops)
    _send(stack, DESIRED_TASK, node_queue(NODE), _sealed(PortalKey.generate(), forged, "portal", NODE, "desired"))
    wait_until(lambda: _told(stack, NODE, "orders refused") == 1, "the order to be refused")
    assert user.wait(job, "succeeded")["retries"] == 0
    assert_log(user, job, counted())
    assert_all_is_well(user, [job])


def _newest_report(recorder: Recorder, attempt: str) -> Report | None:
    reports = [decode(body, Report) for body in _bodies(recorder, REPORTS_QUEUE)]
    return next((one for one in reversed(reports) if any(c.attempt == attempt for c in one.containers)), None)


def _newest_desired(recorder: Recorder) -> Desired | None:
    lists = [decode(body, Desired) for body in _bodies(recorder, node_queue(NODE))]
    return next((one for one in reversed(lists) if one.orders), None)


def _bodies(recorder: Recorder, queue: str) -> list[bytes]:
    """What the envelopes on this queue said; other tasks on it have none."""
    texts = [
        json.loads(base64.b64decode(json.loads(text)["body"]))[0] for name, text in recorder.messages if name == queue
    ]
    envelopes = [base64.b64decode(args[0].partition(".")[2]) for args in texts if args]
    return [decode(envelope, Envelope).body.encode() for envelope in envelopes]


def _sealed(key: NodeKey | PortalKey, message: object, sender: str, to: str, kind: str) -> str:
    expires_ms = int(time.time() * 1000) + 30_000
    body = encode(message).decode()
    return envelope_seal(key, Envelope(sender=sender, to=to, kind=kind, expires_ms=expires_ms, body=body))


def _send(stack: Stack, task: str, queue: str, text: str) -> None:
    with Celery(broker=stack.redis.url, set_as_current=False) as app:
        app.send_task(task, args=[text], queue=queue, ignore_result=True)


def _told(stack: Stack, process: str, words: str) -> int:
    return stack.processes[process].log.read_text().count(words)

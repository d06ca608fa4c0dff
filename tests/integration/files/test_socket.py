"""``/ws/exec/<task attempt>``: who may, what goes to and fro, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.run.waiting import wait_until

if TYPE_CHECKING:
    from tests.integration.files.conftest import Running
    from tests.support.people.live_web import LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)
START = {"type": "start"}


class Talk:
    """One open socket."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.taken = 0

    def say(self, **message: object) -> None:
        self.socket.send(json.dumps(message))

    def type(self, data: bytes) -> None:
        self.socket.send(data)

    def next(self) -> Any:
        """The next message; text as what it says."""
        message = self.socket.recv(timeout=15)
        if isinstance(message, bytes):
            return message
        told = json.loads(message)
        self.taken = max(self.taken, told.get("bytes", 0))
        return told

    def until(self, kind: str) -> dict[str, Any]:
        """The next text message of that type."""
        while True:
            message = self.next()
            if isinstance(message, dict) and message["type"] == kind:
                return message

    def output(self, size: int) -> bytes:
        """So many bytes of what was written, behind the number of their stream."""
        found = b""
        while len(found) < size + 1:
            message = self.next()
            if isinstance(message, bytes):
                assert found[:1] in (b"", message[:1])
                found = message[:1] + found[1:] + message[1:]
        return found

    def closed(self) -> tuple[int, str]:
        """Waits for the server to close: its code and reason."""
        try:
            while True:
                self.next()
        except ConnectionClosed as error:
            close = error.rcvd
        return (close.code, close.reason) if close else (0, "")


def headers_of(user: Any, **options: Any) -> dict[str, Any]:
    from tests.support.people.cast import Api

    return {"additional_headers": Api(user, **options).headers}


@contextmanager
def talking(web: LiveWeb, running: Running, user: Any = None, **options: Any) -> Iterator[Talk]:
    credentials = headers_of(user or running.world.user, **options)
    with web.socket(f"/ws/exec/{running.row.pk}", **credentials) as listener:
        yield Talk(listener.socket)


def test_what_is_typed_comes_back_with_sizes_errors_and_the_exit_code(running: Running, web: LiveWeb) -> None:
    with talking(web, running) as talk:
        talk.say(type="start", command=["python", "-q"], rows=10, columns=20, term="xterm-256color")
        assert talk.until("started")["window"] == 262_144
        talk.type(b"typed")
        assert talk.output(5) == b"\x01typed"
        talk.type(b"error bad")
        assert talk.output(3) == b"\x02bad"
        talk.say(type="resize", rows=30, columns=40)
        talk.type(b"exit 7")
        assert talk.until("end") == {"type": "end", "code": 7, "message": ""}
        assert talk.closed()[0] == 1000
    (shell,) = running.runtime.shells
    assert (shell.request.command, shell.request.tty, shell.request.term) == (("python", "-q"), True, "xterm-256color")
    assert (shell.request.rows, shell.request.columns, shell.sizes) == (10, 20, [(30, 40)])


def test_the_end_of_input_reaches_a_program_on_pipes(running: Running, web: LiveWeb) -> None:
    with talking(web, running) as talk:
        talk.say(type="start", tty=False)
        data = bytes(range(256)) * 1000
        talk.until("started")
        talk.type(data)
        assert talk.output(len(data)) == b"\x01" + data
        talk.say(type="finish")
        assert talk.until("end")["code"] == 0
        assert talk.taken == len(data)


WHO = {"owner": None, "admin": None, "lead": 4403, "member": 4403, "auditor": 4403, "other": 4404, "nobody": 4404}


def test_a_shell_is_for_the_owner_and_administrators(running: Running, web: LiveWeb) -> None:
    from tests.support.people.cast import cast_of

    people = cast_of(running.world.vc, running.world.user)
    for who, refusal in WHO.items():
        with talking(web, running, people[who]) as talk:
            if refusal is None:
                talk.say(**START)
                talk.until("started")
            else:
                code, reason = talk.closed()
                assert code == refusal, who
                assert code == 4404 or "owner or an administrator" in reason
    assert len(running.runtime.shells) == 2


def test_a_page_in_chinese_is_told_in_chinese_why_it_has_no_shell_and_a_program_in_english(
    running: Running, web: LiveWeb
) -> None:
    from django.test import Client

    from portal.accounts.services import language_set
    from tests.support.people.cast import HOST, cast_of

    lead = cast_of(running.world.vc, running.world.user)["lead"]
    language_set(user=lead, language="zh-hans", now=running.world.now)
    client = Client(HTTP_HOST=HOST)
    client.force_login(lead)
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    with web.socket(
        f"/ws/exec/{running.row.pk}", additional_headers={"Cookie": cookie}, origin=f"http://{web.host}"
    ) as page:
        assert Talk(page.socket).closed() == (4403, "只有作业的所有者或管理员可以在作业中打开终端。")
    with talking(web, running, lead) as program:
        assert program.closed() == (4403, "Only its owner or an administrator may open a shell in a job.")


def test_a_token_for_reading_opens_none(running: Running, web: LiveWeb) -> None:
    from portal.accounts.models import Scope

    with talking(web, running, scope=Scope.READ) as talk:
        assert talk.closed() == (4403, "This token has the scope read; submit is needed.")
    with web.socket(f"/ws/exec/{running.row.pk}") as listener:
        assert listener.close_code() == 4401
    assert running.runtime.shells == []


def test_each_shell_is_an_entry_with_the_first_word_alone(running: Running, web: LiveWeb) -> None:
    from portal.accounts.models import Audited, AuditEntry

    for command in ([], ["curl", "--token=secret"]):
        with talking(web, running) as talk:
            talk.say(**START, command=command)
            talk.until("started")
    second, first = AuditEntry.objects.filter(action=Audited.SHELL)
    assert (first.actor, first.target, first.via, first.vc) == ("alice", running.job.label, "socket", "vision")
    assert first.after == {"task": "worker/0", "attempt": str(running.row.pk), "node": "gpu01", "command": []}
    assert second.after is not None
    assert second.after["command"] == ["curl"]


def test_a_task_that_does_not_run_has_none(running: Running, web: LiveWeb) -> None:
    running.runtime.running = False
    with talking(web, running) as talk:
        talk.say(**START)
        assert "does not run on this node" in talk.until("end")["message"]
    running.node.finish()
    with talking(web, running) as talk:
        assert talk.closed() == (4409, "The task does not run: it is terminated.")


def test_who_is_disabled_loses_it_within_seconds(
    running: Running, web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.accounts.models import User
    from portal.common import lasting

    monkeypatch.setattr(lasting, "RECHECK_S", 0.1)
    with talking(web, running) as talk:
        talk.say(**START)
        talk.until("started")
        talk.type(b"deaf ears")
        User.objects.filter(username="alice").update(is_active=False)
        assert talk.closed()[0] == 4401
        wait_until(running.runtime.shells[0].closed.is_set, "the program to end")


def test_a_program_ends_with_its_socket(running: Running, web: LiveWeb) -> None:
    with talking(web, running) as talk:
        talk.say(**START)
        talk.until("started")
    wait_until(running.runtime.shells[0].closed.is_set, "the program to end")


def test_a_program_ends_when_nothing_is_typed_or_written(running: Running, web: LiveWeb, settings: Any) -> None:
    settings.SHELL_IDLE_S = 1
    with talking(web, running) as talk:
        talk.say(**START)
        end = talk.until("end")
    assert (end["code"], end["message"]) == (None, "Nothing was typed or written for 1 seconds.")
    wait_until(running.runtime.shells[0].closed.is_set, "the program to end")


def test_a_node_that_does_not_answer_or_falls_silent_is_named(
    cluster: Running, web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.terminal import shell

    monkeypatch.setattr(shell, "ANSWER_WITHIN_S", 0.3)
    monkeypatch.setattr(shell, "SILENCE_S", 2.5)
    with talking(web, cluster) as talk:
        talk.say(**START)
        assert talk.until("end")["message"] == "The agent of gpu01 does not answer."
    with cluster.door(boot=cluster.node.boot - 1) as runtime, talking(web, cluster) as talk:
        talk.say(**START)
        assert talk.until("end")["message"] == "The agent of gpu01 does not answer."
        assert runtime.shells == []


def test_of_many_sizes_only_the_last_one_waits_for_a_slow_program(running: Running, web: LiveWeb) -> None:
    with talking(web, running) as talk:
        talk.say(**START)
        talk.until("started")
        (shell,) = running.runtime.shells
        talk.type(b"wait")
        for rows in range(1, 201):
            talk.say(type="resize", rows=rows, columns=80)
        talk.say(type="finish")
        talk.say(type="finish")
        talk.type(b"")
        wait_until(lambda: frames_sent(running) >= 203, "all of them to be on their way")
        shell.gate.set()
        assert talk.until("end")["code"] == 0
    assert shell.sizes[-1] == (200, 80)
    assert len(shell.sizes) < 20


def frames_sent(running: Running) -> int:
    """How many frames the node of its one session was sent."""
    from django.conf import settings
    from redis import Redis

    with Redis.from_url(settings.REDIS_URL) as redis:
        streams: Any = redis.keys("berth:node:*:session:*:down")
        last: Any = [redis.xinfo_stream(stream)["last-generated-id"] for stream in streams]
    return max((int(one.partition(b"-")[0]) for one in last), default=0)


def test_typing_more_than_is_taken_is_cut_off(running: Running, web: LiveWeb) -> None:
    with talking(web, running) as talk:
        talk.say(**START)
        talk.until("started")
        talk.type(b"deaf ")
        talk.type(bytes(262_144))
        assert "More than 262144 bytes" in talk.until("end")["message"]


NONSENSE = [
    "", "[]", "{", '{"type": "else"}', '{"type": "start", "rows": 0}', '{"type": "start", "term": "x\\u001b"}',
    '{"type": "start", "command": "ls"}', '{"type": "start", "command": ["a\\u0000b"]}', '{"type": "start", "more": 1}',
    '{"type": "resize", "rows": 1, "columns": 2}', '{"type": "finish"}', b"typed", '{"message": ' + "[" * 60_000,
]  # fmt: skip


def test_a_first_message_that_is_none_ends_it_in_words(running: Running, web: LiveWeb) -> None:
    for nonsense in NONSENSE:
        with talking(web, running) as talk:
            talk.socket.send(nonsense)
            end = talk.until("end")
            assert end["code"] is None
            assert "message" in end["message"].lower(), nonsense
            assert talk.closed()[0] == 1000
    assert running.runtime.shells == []


def test_redis_that_loses_everything_ends_it(running: Running, web: LiveWeb, redis_server: Any) -> None:
    with talking(web, running) as talk:
        talk.say(**START)
        talk.until("started")
        redis_server.restart_empty()
        end = talk.until("end")
    assert (end["code"], end["message"]) == (None, "The lane to the node is broken.")
    wait_until(running.runtime.shells[0].closed.is_set, "the program to end")

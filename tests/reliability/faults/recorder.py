"""Records what really goes over Redis, and sends it again through the same queues."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')


class Recorder:
    """`messages`: queue and text of every Celery message that was sent, in their order."""

    def __init__(self, server: RedisServer) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self._server = server
        self._client = server.client()

    def again(self, messages: list[tuple[str, bytes]]) -> None:
        """Put these on their queues once more, and wait until all were taken."""
        for queue, text in messages:
            self._client.lpush(queue, text)
        wait_until(lambda: not any(self._client.llen(queue) for queue, _ in messages), "the queues to be empty")

    def watch(self, watching: threading.Event) -> None:
        with self._server.client() as client, client.monitor() as monitor:
            watching.set()
            while True:
                try:
                    line = monitor.connection.read_response()
                except (redis.RedisError, OSError, ValueError):
                    return
                self._take([word.decode("unicode_escape").encode("latin-1") for word in _WORD.findall(line)])

    def _take(self, words: list[bytes]) -> None:
        if len(words) == 3 and words[0] == b"LPUSH":
            self.messages.append((words[1].decode(), words[2]))


@contextmanager
def recorded(server: RedisServer) -> Iterator[Recorder]:
    """Everything that is sent from now on; it ends with the server."""
    recorder, watching = Recorder(server), threading.Event()
    threading.Thread(target=recorder.watch, args=(watching,), daemon=True).start()
    assert watching.wait(10)
    yield recorder

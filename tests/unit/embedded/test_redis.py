"""The bundled Redis is found again: by servers that joined at its port, by commands by its address."""

import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from portal.embedded.redis import BundledRedis
from tests.support.cluster.restored_portal import Portal
from tests.support.cluster.stack import ROOT


@contextmanager
def started(data: Path, said: list[str]) -> Iterator[int]:
    redis = BundledRedis(data / "redis", said=said.append)
    redis.start()
    try:
        with Redis.from_url((data / "redis" / "url").read_text().strip()) as client:
            assert client.ping()
            yield int(client.connection_pool.connection_kwargs["port"])
    finally:
        redis.stop()


def test_it_has_the_same_port_after_a_restart_and_another_only_while_that_is_used(tmp_path: Path) -> None:
    said: list[str] = []
    with started(tmp_path, said) as first:
        pass
    with started(tmp_path, said) as again:
        assert again == first
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        busy.bind(("127.0.0.1", first))
        busy.listen()
        assert said == []
        with started(tmp_path, said) as other:
            assert other != first
    (line,) = said
    assert line.startswith(f"127.0.0.1:{first} is used by something else. The bundled Redis takes port {other} ")
    with started(tmp_path, said) as at_last:
        assert at_last == first


def test_the_check_beside_the_stack_says_how_its_redis_is_found(tmp_path: Path) -> None:
    portal, url = Portal(tmp_path, ""), tmp_path / "redis" / "url"

    def check(**more: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", "check", "--deploy", "--tag", "security"], cwd=ROOT,
            env=portal.environment | more, capture_output=True, text=True, check=True,
        ).stderr  # fmt: skip

    with started(tmp_path, []):
        assert stat.S_IMODE(url.stat().st_mode) == 0o600
        wrong = "redis://127.0.0.1:1/0"
        assert f"HINT: Beside make demo or make run: set BERTH_REDIS_URL_FILE={url}." in check(BERTH_REDIS_URL=wrong)
        assert "berth.W" not in check(BERTH_REDIS_URL_FILE=str(url))

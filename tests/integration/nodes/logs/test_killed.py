"""An agent that is killed with SIGKILL again and again, at whatever byte, loses and doubles nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.protocol.envelope import NodeKey
from tests.support.cluster.agent_logs import Reader, text_of
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.redis


@pytest.mark.parametrize("seed", [1, pytest.param(range(2, 20), marks=pytest.mark.soak)])
def test_a_killed_agents_log_is_whole(tmp_path: Path, redis_server: RedisServer, seed: int | range) -> None:
    for one in [seed] if isinstance(seed, int) else seed:
        killed_often(tmp_path / str(one), redis_server, random.Random(one))


def killed_often(folder: Path, redis_server: RedisServer, chance: random.Random) -> None:
    folder.mkdir()
    key, output, printed = NodeKey.generate(), folder / "output", ""
    output.touch()
    with redis_server.client() as client:
        client.flushall()
        reader = Reader(client, "a1", key.public)
        for round_ in range(6):
            more = "".join(f"{round_}/{n} {'x' * chance.randrange(200)}\n" for n in range(chance.randrange(1, 8000)))
            with output.open("a") as file:
                file.write(more)
            printed += more
            if round_ == 5:
                output.with_suffix(".end").touch()
            with agent(folder, redis_server, key) as process:
                wanted = reader.offset + (chance.randrange(200_000) if round_ < 5 else 1 << 40)
                wait_until(lambda: reader.take() >= wanted or taken(reader) == printed, "the log", every_s=0.005)  # noqa: B023
                process.kill()

        assert taken(reader) == printed


def taken(reader: Reader) -> str:
    return text_of(reader.records)


def agent(folder: Path, redis_server: RedisServer, key: NodeKey) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.integration.nodes.logs.agent_process",
        str(folder / "spool"),
        redis_server.url,
    ]
    return subprocess.Popen([*command, key.secret, str(folder / "output")])

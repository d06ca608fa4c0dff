"""How much room the spools of a node take together, and what becomes of those that nobody asks for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import redis

from nodes.agent.logs.spool import Spool
from nodes.protocol.logs import MARK
from tests.support.cluster.agent_logs import NO_MASKS, Printed, Start, lines, reader, take_all, text_of
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.redis


def test_beyond_the_nodes_limit_the_large_logs_drop_lines_and_the_small_ones_none(
    start: Start, client: redis.Redis
) -> None:
    pipeline, large, small = start(window=1000, node_limit=20_000), Printed(lines(2000)), Printed(lines(1))
    pipeline.attach("a1", large, NO_MASKS)
    pipeline.attach("a2", small, NO_MASKS)
    wait_until(lambda: pipeline.status("a1").end == 23 * 2000, "the large log in the spool")
    number = 2000

    def dropping() -> bool:
        nonlocal number
        large.print(*lines(1, first=number))
        number += 1
        return pipeline.status("a1").dropped_lines > 0

    wait_until(dropping, "the large log to drop lines")
    small.print(*lines(99, first=1))
    small.end()
    take_all(reader(client, "a2"), pipeline, "a2")
    assert pipeline.status("a2").dropped_lines == 0
    large.end()
    log = reader(client)
    take_all(log, pipeline)
    assert "lines dropped here" in text_of([record for record in log.records if record.stream == MARK])


def test_spools_that_nobody_asks_for_are_deleted_and_young_ones_wait_a_week(start: Start, tmp_path: Path) -> None:
    pipeline, folder = start(), tmp_path / "spool"
    for attempt in ("known", "removed", "old", "young"):
        Spool(folder / attempt).close()
    week_ago = time.time() - 7 * 86_400 - 60
    for path in (folder / "old", *(folder / "old").iterdir(), folder / "known", *(folder / "known").iterdir()):
        os.utime(path, (week_ago, week_ago))
    pipeline.sweep(known={"known"}, removed={"removed"})
    assert {path.name for path in folder.iterdir()} == {"known", "young"}

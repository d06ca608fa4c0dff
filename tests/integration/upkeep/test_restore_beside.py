"""What a restore finds beside itself: a portal on SQLite that runs, and one that was killed a moment ago."""

import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.cluster.restored_portal import Portal
from tests.support.cluster.stack import BIN, ROOT
from tests.support.run.waiting import wait_until
from tests.support.services.migrated import sqlite_copy
from tests.support.services.processes import free_port
from tests.support.services.services import Services


@pytest.mark.redis
def test_a_portal_on_sqlite_that_runs_is_not_overwritten_and_one_that_was_killed_is_no_obstacle(
    tmp_path: Path, services: Services
) -> None:
    database, port, log = tmp_path / "berth.sqlite3", free_port(), tmp_path / "web.log"
    portal, backup = Portal(tmp_path, sqlite_copy(database), services), str(tmp_path / "backup.tar")
    environment = portal.environment | {"BERTH_REDIS_URL": services.redis.url, "BERTH_URL": f"http://127.0.0.1:{port}"}
    command = [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(port)]
    with log.open("wb") as out:
        web = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "Application startup complete" in log.read_text(), "the web process")
        portal.manage("backup", backup)
        before = database.stat().st_ino
        said = portal.manage("restore", backup, "--replace", status=1)
        assert "Nothing was restored. This portal is running. Stop all of its processes first" in said
        assert database.stat().st_ino == before
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    finally:
        web.kill()
        web.wait()
    said = portal.manage("restore", backup, "--replace", status=1, BERTH_CLUSTER="other")
    assert "Set BERTH_CLUSTER=berth" in said, "the next thing that is looked at"

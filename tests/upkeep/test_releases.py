"""What each release left behind is brought up to the present: its databases, with keys and logs (see `freeze.py`)."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nodes.runtimes.process import ProcessRuntime
from tests.support.migrated import postgres_copy, sqlite_copy
from tests.support.postgres import PostgresServer
from tests.support.redis_server import RedisServer
from tests.upkeep.portal import Portal

RELEASES = sorted(one for one in (Path(__file__).parent / "releases").glob("*.tar.xz") if ".sources." not in one.name)


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.partition(".")[0])
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a release left."""
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path / "left")
    return tmp_path / "left"


def test_of_sqlite(left: Path, running_redis: RedisServer, tmp_path: Path) -> None:
    portal = Portal(left / "sqlite", "")
    look(portal, running_redis)
    fresh = sqlite_copy(tmp_path / "fresh.sqlite3").removeprefix("sqlite:///")
    assert sqlite_shape(portal.folder / "berth.sqlite3") == sqlite_shape(Path(fresh))


def test_of_postgresql(left: Path, running_redis: RedisServer, postgres: PostgresServer) -> None:
    portal = Portal(left / "postgresql", postgres.create_database("left"))
    postgres.restore("left", portal.folder / "berth.sql")
    look(portal, running_redis)
    assert postgres_shape(portal.database) == postgres_shape(postgres_copy(postgres, "left_fresh"))


def look(portal: Portal, redis: RedisServer) -> None:
    """Migrates, and compares what there is with what the release itself told of it."""
    told = json.loads((portal.folder / "told.json").read_text())
    now = json.loads(portal.module("tests.upkeep.look", str(portal.folder / "told.json"), BERTH_REDIS_URL=redis.url,
                                   DJANGO_SETTINGS_MODULE="portal.settings"))  # fmt: skip
    assert now["people"] == dict.fromkeys(told["tokens"], True)
    for name, job in told["jobs"].items():
        found = now["jobs"][name]
        assert (found["state"], found["page"]) == (job["state"], True), name
        logs = [[line for line in log if line != ProcessRuntime.notice] for log in found["logs"]]
        assert logs == job["logs"] or name == "running", "what was not archived lies on its node"
        assert found["secrets"] == (told["secrets"] if name in ("secret", "waiting") else {})
    assert {vc: gpus[0]["quota"] for vc, gpus in now["quota"].items()} == {"research": 2, "vision": 2}


def sqlite_shape(file: Path) -> Any:
    """Columns and indexes."""
    with closing(sqlite3.connect(file)) as base:
        names = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%' ORDER BY name"
        tables = [name for (name,) in base.execute(names, ["table"])]
        columns = {name: {row[1:4] for row in base.execute(f"PRAGMA table_info({name})")} for name in tables}
        return columns, base.execute(names, ["index"]).fetchall()


def postgres_shape(url: str) -> Any:
    """Columns, indexes and constraints."""
    with psycopg.connect(url) as base:
        return [
            base.execute(query).fetchall()
            for query in (
                "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
                "WHERE table_schema = 'public' ORDER BY 1, 2",
                "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
                "SELECT conname FROM pg_constraint JOIN pg_namespace n ON n.oid = connamespace "
                "WHERE n.nspname = 'public' ORDER BY 1",
            )
        ]

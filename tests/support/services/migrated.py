"""Databases that have the portal's tables already: migrating an empty one takes longer than most tests.

Each kind of database is migrated once for the sources as they are and copied from there: by every test run, every
stack, until a migration or a model changes.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import chain
from pathlib import Path

from tests.support.services.kept_build import ROOT, digest_of, kept_build
from tests.support.services.postgres import PostgresServer


def sqlite_copy(to: Path) -> str:
    """A new database at this path. Returns its URL."""
    with kept_build("migrated", f"{_sources()}.sqlite3", _sqlite_make) as path:
        shutil.copy(path, to)
    return f"sqlite:///{to}"


def postgres_copy(server: PostgresServer, name: str) -> str:
    """A new database in this server. Returns its URL."""
    with kept_build("migrated", f"{_sources()}.sql", lambda path: _postgres_make(server, path)) as path:
        if not server.has_database("migrated"):
            server.create_database("migrated")
            server.restore("migrated", path)
    return server.create_database(name, like="migrated")


def _sqlite_make(path: Path) -> None:
    _migrate(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, without its log beside it


def _postgres_make(server: PostgresServer, path: Path) -> None:
    _migrate(server.create_database("making"))
    server.dump("making", path)
    server.drop_database("making")


def _migrate(url: str) -> None:
    environment = os.environ | {"BERTH_DATABASE_URL": url}
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the database could not be migrated:\n{done.stdout}{done.stderr}"


def _sources() -> str:
    """Changes with whatever may change what migrations make: themselves, the models, which Django makes permissions of,
    and the packages."""
    portal = (ROOT.glob(f"portal/**/{name}") for name in ("migrations/*.py", "models/**/*.py", "models.py", "apps.py"))
    return digest_of([*chain(*portal), ROOT / "requirements.txt"])

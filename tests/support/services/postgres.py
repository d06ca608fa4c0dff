"""A real PostgreSQL for the tests, on a loopback port and a socket in a temporary folder."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.run.waiting import wait_until
from tests.support.services.guard import Guard
from tests.support.services.processes import Process, free_port
from tests.support.services.tls import Files

USER = "berth"


def postgres_binaries() -> Path | None:
    """The folder with initdb and postgres of the newest version installed, or None."""
    found = shutil.which("initdb")
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]), reverse=True
    )
    candidates = [*folders, *([Path(found)] if found else [])]
    return candidates[0].parent if candidates else None


def as_postgres() -> list[str]:
    """What goes before the command of a program that refuses to run as root: then it runs as the user that PostgreSQL's
    package made."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups", "--"]


class PostgresServer:
    """Chooses its port when made, so that settings can name it; `start` makes and starts it once needed. Only one that
    is `durable` waits for the disk, as in earnest."""

    def __init__(self, folder: Path, guard: Guard, *, durable: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self._guard = guard
        self._durable = durable
        self._process: Process | None = None

    def url(self, database: str = "berth") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        if self._process is None:
            self._process = self._made()
        if not self._process.is_running():
            self._process.start()
            wait_until(self.answers, f"PostgreSQL on port {self.port}")

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self._connect():
            return True
        return False

    def kill(self) -> None:
        """SIGKILL to the server and every backend; the next start recovers."""
        if self._process:
            self._process.kill()

    def restart(self) -> None:
        self.kill()
        self.start()

    def speak_tls(self, files: Files | None) -> None:
        """Show this certificate to whoever connects from now on; None: speak no TLS, as at first."""
        told: dict[str, str] = {"ssl": "off"}
        if files:
            for path in (files.certificate, files.key):
                shown = self.folder / path.name
                shutil.copy(path, shown)
                if os.geteuid() == 0:
                    shutil.chown(shown, "postgres", "postgres")
                shown.chmod(0o600)
            told = {"ssl_cert_file": f"{self.folder / files.certificate.name}",
                    "ssl_key_file": f"{self.folder / files.key.name}", "ssl": "on"}  # fmt: skip
        with self._connect() as connection:
            for name, value in told.items():
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            connection.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self._shown() == told.get("ssl_cert_file", ""), "PostgreSQL to read its certificate")

    def _shown(self) -> str:
        """The certificate's file, as new connections find it."""
        with self._connect() as connection:
            (on,), (name,) = (connection.execute(f"SHOW {one}").fetchone() or ("",) for one in ("ssl", "ssl_cert_file"))
        return str(name) if on == "on" else ""

    def create_database(self, name: str, *, like: str = "template1") -> str:
        """A new database, empty or a copy. Returns its URL."""
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(like))
        with self._connect() as connection:
            connection.execute(words)
        return self.url(name)

    def has_database(self, name: str) -> bool:
        with self._connect() as connection:
            return connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is not None

    def dump(self, name: str, to: Path) -> None:
        self._run("pg_dump", "--no-owner", "--file", str(to), self.url(name))

    def restore(self, name: str, file: Path) -> None:
        quiet = ["--no-psqlrc", "--quiet", "--output=/dev/null"]
        self._run("psql", *quiet, "--set=ON_ERROR_STOP=1", "--single-transaction", "--file", str(file), self.url(name))

    def _run(self, *words: str) -> None:
        binaries = postgres_binaries()
        assert binaries, "PostgreSQL is not installed"
        done = subprocess.run([binaries / words[0], *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words[0]} failed:\n{done.stderr}"

    def drop_database(self, name: str) -> None:
        with self._connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=5)

    def _made(self) -> Process:
        binaries = postgres_binaries()
        assert binaries, "PostgreSQL is not installed"
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        initdb = [*as_postgres(), str(binaries / "initdb"), "-D", str(data), "-U", USER, "-A", "trust"]
        initdb += ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        subprocess.run(initdb, check=True, capture_output=True, cwd="/")
        # Safe against kill -9, which may cut a page's write in two (so full pages stay in the log), not a power cut.
        fast = {} if self._durable else {"fsync": "off"}
        where = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.folder)}
        options = {"port": str(self.port), "max_connections": "200", **where, **fast}
        command = [*as_postgres(), str(binaries / "postgres"), "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        return Process("postgres", command, guard=self._guard, log=self.folder.parent / "postgres.log", cwd=Path("/"))

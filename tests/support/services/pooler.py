"""A real PgBouncer for the tests, in transaction mode, before their PostgreSQL."""

import shutil
from pathlib import Path

from tests.support.run.waiting import wait_until
from tests.support.services.guard import Guard
from tests.support.services.postgres import USER, PostgresServer, as_postgres
from tests.support.services.processes import Process, free_port, port_answers

SETTINGS = """\
[databases]
* = host=127.0.0.1 port={behind} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
"""


def pooler_binary() -> str | None:
    """PgBouncer's program, which lies where only root's PATH may lead; None where it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class Pooler:
    """Hands `connections` of each database on, from one transaction to the next."""

    def __init__(self, folder: Path, guard: Guard, server: PostgresServer, *, connections: int) -> None:
        binary, settings = pooler_binary(), folder / "pgbouncer.ini"
        assert binary, "PgBouncer is not installed"
        self.port = free_port()
        settings.write_text(SETTINGS.format(behind=server.port, user=USER, port=self.port, connections=connections))
        settings.chmod(0o644)
        command = [*as_postgres(), binary, str(settings)]
        self._process = Process("pgbouncer", command, guard=guard, log=folder / "pgbouncer.log", cwd=Path("/"))

    def start(self) -> None:
        self._process.start()
        wait_until(lambda: port_answers(self.port), f"PgBouncer on port {self.port}")

    def close(self) -> None:
        self._process.kill()

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

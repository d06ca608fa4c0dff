"""What the settings make of a connection: `python -m tests.integration.common.connected`, in the environment of a
portal on PostgreSQL. Prints as JSON what libpq was told, what the socket has, and what PostgreSQL keeps of statements
and of cursors.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import django

OF_SOCKET = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")


def main() -> None:
    django.setup()
    from django.contrib.auth.models import Permission
    from django.db import connection

    from portal.accounts.models import User
    from portal.common.prepared import Prepared, Slot

    named = Prepared(lambda: User.objects.filter(username=Slot("name", str)))
    for _ in range(8):
        named(name="alice")
    rows = Permission.objects.iterator(chunk_size=2)
    next(rows)
    cursors = asked("SELECT count(*) FROM pg_cursors WHERE is_holdable")
    rows.close()  # type: ignore[attr-defined]  # a generator
    kept = asked("SELECT count(*) FROM pg_prepared_statements")
    told: Any = connection.connection
    with socket.socket(fileno=os.dup(told.fileno())) as live:
        has = {name: live.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in OF_SOCKET}
        has["SO_KEEPALIVE"] = live.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    print(json.dumps({"told": told.info.get_parameters(), "socket": has, "statements": kept, "cursors": cursors}))


def asked(sql: str) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    main()

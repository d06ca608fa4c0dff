"""What a backup is made of, and what it says of itself."""

from __future__ import annotations

from datetime import datetime

import msgspec

MANIFEST = "backup.json"
FORMAT = 1
PARTS = ("keys", "code", "logs", "metrics")
"""What can be left out of a backup, beside its database."""


class Manifest(msgspec.Struct, kw_only=True):
    """The first entry. ``migrations``: what the database was made by, as [app, name]; ``parts``: what is in it beside
    the database."""

    format: int
    made_at: datetime
    cluster: str
    database: str
    migrations: list[tuple[str, str]]
    parts: list[str]


def table_entry(label: str) -> str:
    """The entry of a table's rows."""
    return f"database/{label}.jsonl.gz"

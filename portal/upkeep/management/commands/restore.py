"""``manage.py restore FILE``: the portal is again what it was when the backup was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.common.outages import outage
from portal.upkeep.archive import ArchiveInvalid
from portal.upkeep.restore import RestoreRefused, restore

NEXT = (
    "Start the portal. Jobs that ran at {at} and still do go on; containers that were started since run on, and their "
    "GPUs are fenced until an administrator decides (on the page of their server). Accounts that were disabled and "
    "tokens that were revoked since {at} are valid again."
)


class Command(BaseCommand):
    help = (
        "Put a backup back, whole or not at all, with the portal stopped. Jobs run on meanwhile. The database may be "
        "of another kind than the backup's: SQLite or PostgreSQL, whatever BERTH_DATABASE_URL says."
    )
    requires_system_checks: list[str] = []  # the database may be empty

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what `manage.py backup` wrote")
        parser.add_argument("--replace", action="store_true", help="delete what the database holds now")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = restore(path=options["file"], replace=options["replace"], said=self.stdout.write)
        except (RestoreRefused, ArchiveInvalid) as refused:
            raise CommandError(f"Nothing was restored. {refused}") from None
        except OSError as error:
            given = error.filename in (None, str(options["file"]))
            cure = "name what `manage.py backup` wrote" if given else "let this user write there"
            words = f"{error.filename or options['file']}: {error.strerror}: {cure}."
            raise CommandError(f"Nothing was restored. {outage(error) or words}") from error
        files = "".join(f", {part}: {count} files" for part, count in done.parts.items())
        at = f"{done.made_at:%Y-%m-%d %H:%M} UTC"
        self.stdout.write(f"Restored to {at}: {done.rows:,} rows{files}.")
        self.stdout.write(NEXT.format(at=at))

"""``manage.py backup FILE``: everything that the portal remembers, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.common.commands import PortalCommand
from portal.common.full_disks import NO_ROOM
from portal.upkeep.backup import BackupRefused, backup_make, part_folder
from portal.upkeep.contents import PARTS


class Command(PortalCommand):
    help = (
        "Write a backup: the database, and beside it keys, code of jobs, logs and metrics. The portal may be in use. "
        "With keys, whoever has the file has every secret in it. Job folders and storages are not the portal's."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="where it is written, mode 0600; replaced only by a whole one")
        parser.add_argument("--without", action="append", default=[], choices=PARTS, help="what is left out")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"].absolute()
        said = self.stdout.write if options["verbosity"] > 1 else lambda _: None
        try:
            made = backup_make(path=path, without=options["without"], now=timezone.now(), said=said)
        except BackupRefused as refused:
            raise CommandError(str(refused)) from None
        except OSError as error:
            if error.filename and any(Path(error.filename).is_relative_to(part_folder(part)) for part in PARTS):
                raise CommandError(
                    f"{error.filename} cannot be read ({error.strerror}): give it to the portal's user."
                ) from error
            full = error.errno in NO_ROOM
            cure = "make room, or name a file on another disk" if full else "name a file that this user may write"
            raise CommandError(f"{error.filename or path} cannot be written ({error.strerror}): {cure}.") from error
        files = "".join(f", {part}: {count} files" for part, count in made.files.items())
        self.stdout.write(f"{path}: {made.size / 1e6:,.1f} MB; {made.rows:,} rows{files}.")

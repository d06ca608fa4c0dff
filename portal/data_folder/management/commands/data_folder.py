"""``manage.py data_folder``: whether this data folder is the database's, and to make it so."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from portal.common.commands import PortalCommand
from portal.data_folder.services import data_folder_fault, data_folder_take


class Command(PortalCommand):
    help = "Say whether BERTH_DATA_DIR is the data folder that belongs to the database, or make it that."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--take", action="store_true", help="from now on it is this one")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["take"]:
            data_folder_take()
        if fault := data_folder_fault():
            raise CommandError(fault)
        self.stdout.write(f"{settings.DATA_DIR} is the data folder of this database.")

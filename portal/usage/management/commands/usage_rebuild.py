"""``manage.py usage_rebuild``: days that are summed up for usage reports, summed up again."""

from __future__ import annotations

from datetime import UTC, date
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from portal.common.commands import PortalCommand
from portal.usage.services.rollup import usage_rebuild


class Command(PortalCommand):
    help = "Sum the days of usage reports up again from what was held and read, such as after an upgrade that says so."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("first", type=date.fromisoformat, help="first day, such as 2026-01-31 (UTC)")
        parser.add_argument("last", type=date.fromisoformat, nargs="?", help="last day; else today")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        last = options["last"] or now.astimezone(UTC).date()
        count = usage_rebuild(first=options["first"], last=last, now=now)
        self.stdout.write(f"{count} days summed up again.")

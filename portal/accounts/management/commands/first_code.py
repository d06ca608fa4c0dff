"""``manage.py first_code``: a new code for the first administrator, where the log is lost."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from portal.accounts.first import first_code_make, first_needed
from portal.common.commands import PortalCommand


class Command(PortalCommand):
    help = "Print a code by which the first administrator is made on the page /first, once."

    def handle(self, *args: Any, **options: Any) -> None:
        if not first_needed():
            raise CommandError("There is an administrator already; manage.py reset_password NAME gives a new password.")
        self.stdout.write(first_code_make(now=timezone.now()))
        self.stderr.write(f"Give it at {settings.URL}/first")

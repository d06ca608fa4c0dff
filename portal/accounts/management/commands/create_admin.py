"""``manage.py create_admin NAME``: the first account."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from portal.accounts.models import ClusterRole
from portal.accounts.services import user_create
from portal.common.commands import PortalCommand
from portal.common.errors import Refused


class Command(PortalCommand):
    help = "Make an administrator with a generated password, printed once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        password = secrets.token_urlsafe(12)
        try:
            user_create(username=options["name"], password=password, role=ClusterRole.ADMIN)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stdout.write(password)

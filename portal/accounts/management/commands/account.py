"""``manage.py account NAME``: an account from the server, where nobody can sign in any more."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from portal.accounts.models import ClusterRole, User
from portal.accounts.people import user_change
from portal.accounts.services import user_set_password
from portal.common.errors import Refused


class Command(BaseCommand):
    help = "Change an account: its role, whether it is disabled, or its password. What is not named stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=ClusterRole.values)
        active = parser.add_mutually_exclusive_group()
        active.add_argument("--enable", dest="active", action="store_const", const=True)
        active.add_argument("--disable", dest="active", action="store_const", const=False)
        parser.add_argument("--reset-password", action="store_true", help="make one and print it, this once")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['name']}.")
        changes = {name: options[name] for name in ("role", "active") if options[name] is not None}
        try:
            user = user_change(user=user, changes=changes, now=timezone.now(), actor="")
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        if options["reset_password"]:
            password = secrets.token_urlsafe(12)
            user_set_password(user=user, password=password)
            self.stdout.write(password)
        state = "active" if user.is_active else "disabled"
        self.stderr.write(f"{user.username}: {user.role}, {state}")

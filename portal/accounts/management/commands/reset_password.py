"""``manage.py reset_password NAME``: a new password for who has lost theirs."""

from __future__ import annotations

from getpass import getpass
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.resets import reset_link_make
from portal.accounts.services import user_set_password
from portal.common.commands import PortalCommand
from portal.common.errors import Refused


class Command(PortalCommand):
    help = "Print a link for a new password, which holds once and for a day; or ask for the password here."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--ask", action="store_true", help="ask for the new password on the terminal")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['name']}.")
        if options["ask"]:
            self._ask(user)
            return
        try:
            self.stdout.write(reset_link_make(user=user, now=timezone.now(), actor=""))
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stderr.write(f"Whoever opens it sets the password of {user.username}, once and within a day.")

    def _ask(self, user: User) -> None:
        password = getpass("New password: ")
        if getpass("Once more: ") != password:
            raise CommandError("The two are not the same; nothing was changed.")
        try:
            user_set_password(user=user, password=password)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stderr.write(f"The password of {user.username} is changed; its browsers are logged out.")

"""``manage.py account NAME``: an account from the server, where nobody can sign in any more."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.accounts.identities import identity_loosen, identity_tie
from portal.accounts.models import ClusterRole, User
from portal.accounts.people import user_change
from portal.accounts.services import numbers_of_own, user_set_password
from portal.common.commands import PortalCommand
from portal.common.errors import Refused


class Command(PortalCommand):
    help = "Change an account: its role, whether it is disabled, or its password. What is not named stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=ClusterRole.values)
        active = parser.add_mutually_exclusive_group()
        active.add_argument("--enable", dest="active", action="store_const", const=True)
        active.add_argument("--disable", dest="active", action="store_const", const=False)
        tied = parser.add_mutually_exclusive_group()
        tied.add_argument("--subject", help="who signs in to it by the provider of BERTH_OIDC_ISSUER")
        tied.add_argument("--no-subject", action="store_true", help="nobody does any more")
        parser.add_argument("--own-uid", action="store_true", help="give it a uid of its own, where it has none")
        parser.add_argument("--reset-password", action="store_true", help="make one and print it, this once")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['name']}.")
        changes = {name: options[name] for name in ("role", "active") if options[name] is not None}
        try:
            if options["own_uid"] and user.uid is None:
                changes |= numbers_of_own(user)
            user = user_change(user=user, changes=changes, now=timezone.now(), actor="")
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self._tie(user, options["subject"], loosen=options["no_subject"])
        if options["reset_password"]:
            password = secrets.token_urlsafe(12)
            user_set_password(user=user, password=password)
            self.stdout.write(password)
        state = "active" if user.is_active else "disabled"
        self.stderr.write(f"{user.username}: {user.role}, {state}, uid {user.uid or 'none'}")

    def _tie(self, user: User, subject: str | None, *, loosen: bool) -> None:
        issuer, now = settings.OIDC_ISSUER, timezone.now()
        if (subject or loosen) and not issuer:
            raise CommandError("BERTH_OIDC_ISSUER is not set.")
        if loosen and not identity_loosen(user=user, issuer=issuer, now=now, actor=""):
            raise CommandError(f"Nobody signs in to {user.username} by {issuer}.")
        if subject:
            try:
                identity_tie(user=user, issuer=issuer, subject=subject, now=now, actor="")
            except Refused as refusal:
                raise CommandError(refusal.detail) from None

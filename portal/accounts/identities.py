"""Identities at a sign-in provider, tied to accounts by issuer and subject, which name a person for good. Never by
e-mail address or name, which people choose and which are reassigned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, Identity, User
from portal.accounts.oidc.flow import Person
from portal.accounts.services import user_create
from portal.common.errors import Conflict, Denied
from portal.env.grants import Grant


class NoAccount(Denied):
    """The provider knows the person, but there is no account for them."""


def grants_of(groups: tuple[str, ...] | None) -> frozenset[Grant]:
    """What these groups of the provider grant."""
    return frozenset(grant for group in groups or () for grant in settings.OIDC_GRANTS.get(group, ()))


def identity_of(*, person: Person, now: datetime) -> Identity:
    """The person's identity with its account, locked; at the first sign-in a new account if the settings create them.
    Inside the caller's transaction. Raises NoAccount."""
    found = Identity.objects.select_for_update(of=("self",)).select_related("user")
    identity = found.filter(issuer=person.issuer, subject=person.subject).first()
    return identity or _first_time(person, now)


def _first_time(person: Person, now: datetime) -> Identity:
    if refusal := _no_account(person):
        raise NoAccount(refusal)
    try:
        user = user_create(username=person.username, password=None, email=person.email)
    except ValidationError as error:
        raise NoAccount(
            gettext("An account cannot be made for you: %(why)s") % {"why": " ".join(error.messages)}
        ) from None
    return identity_tie(user=user, issuer=person.issuer, subject=person.subject, now=now, actor="")


def _no_account(person: Person) -> str:
    told = {"name": person.username, "subject": person.subject, "claim": settings.OIDC_USER_CLAIM}
    if settings.OIDC_ACCOUNTS == "none":
        words = gettext(
            "No account here is tied to you (subject %(subject)s). An administrator makes one and ties it: "
            "manage.py account NAME --subject %(subject)s"
        )
    elif settings.OIDC_ACCOUNTS == "mapped" and not grants_of(person.groups):
        words = gettext(
            "None of your groups at the sign-in provider gives you anything here. An administrator of the cluster can "
            "say which one shall (BERTH_OIDC_ROLES)."
        )
    elif not person.username:
        words = gettext("The sign-in provider does not send a user name, the claim %(claim)s (BERTH_OIDC_USER_CLAIM).")
    elif User.objects.filter(username=person.username).exists():
        words = gettext(
            "There is an account %(name)s already, and it is not tied to you. If it is yours, log in with its password "
            "and tie it on your profile; or an administrator does: manage.py account %(name)s --subject %(subject)s"
        )
    else:
        return ""
    return words % told


def identity_tie(*, user: User, issuer: str, subject: str, now: datetime, actor: str) -> Identity:
    """Ties ``subject`` at ``issuer`` to this account for signing in; idempotent. Raises Conflict if either is tied to
    another."""
    there = Identity.objects.filter(issuer=issuer, user=user).first()
    if there is not None and there.subject == subject:
        return there
    try:
        with transaction.atomic():
            made = Identity.objects.create(user=user, issuer=issuer, subject=subject, created_at=now)
            after = {"issuer": issuer, "subject": subject}
            audit_write(Audited.IDENTITY, actor=actor, target=user.username, now=now, after=after)
    except IntegrityError as error:
        other = Identity.objects.filter(issuer=issuer, subject=subject).select_related("user").first()
        if other is not None:
            words = gettext("You sign in to the account %(name)s by it already.") % {"name": other.user.username}
        else:
            words = gettext("The account %(name)s is tied to somebody else there.") % {"name": user.username}
        raise Conflict(words) from error
    return made


def identity_loosen(*, user: User, issuer: str, now: datetime, actor: str) -> bool:
    """Unties the account from that provider; returns whether it was tied. What its groups granted stays."""
    with transaction.atomic():
        identity = Identity.objects.filter(user=user, issuer=issuer).first()
        if identity is None:
            return False
        before: Mapping[str, Any] = {"issuer": issuer, "subject": identity.subject}
        identity.delete()
        audit_write(Audited.IDENTITY, actor=actor, target=user.username, now=now, before=before)
    return True

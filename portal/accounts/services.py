"""Writes accounts and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, ClusterRole, Scope, Token, User
from portal.common.errors import Conflict, Denied
from portal.common.sentences import sentence
from portal.common.throttles import Rate, RateLimit, by_address

TOKEN_MARK = "berth_"  # prefix of every token, so that a leaked one is recognised
TOKEN_BYTES = 32
TOUCH_EVERY = timedelta(minutes=1)
SIGN_INS = RateLimit("login", Rate(*settings.LOGIN_RATE))


class WrongPassword(Denied):
    """No active account has this name and password; which of the two is wrong is not said."""

    status = 401
    title = "Not signed in"

    def __init__(self) -> None:
        super().__init__(gettext("User name or password is wrong."))


class PasswordsOff(Denied):
    """Log-in by password is disabled."""

    def __init__(self) -> None:
        super().__init__(gettext("Nobody logs in by password here (BERTH_PASSWORDS)."))


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made, with its ``secret``, which is never available again."""

    token: Token
    secret: str


def sign_in(*, username: str, password: str, address: str, now: datetime) -> User:
    """The account with this name and password.

    Tries are counted per address and per user name. A success clears the name's count and is not counted for the
    address, but gives it no further tries at other accounts. Raises WrongPassword, RateLimited, PasswordsOff.
    """
    if not settings.PASSWORDS:
        raise PasswordsOff
    whence, who = by_address(address), f"user:{username.lower()}"
    for key in (whence, who):
        SIGN_INS.take(key, now=now)
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        audit_write(Audited.SIGN_IN_REFUSED, actor="", target=username, now=now)
        raise WrongPassword
    SIGN_INS.give_back(whence, now=now)
    SIGN_INS.clear(who, now=now)
    audit_write(Audited.SIGN_IN, actor=user.username, target=user.username, now=now)
    return user


def password_prove(*, user: User, password: str, now: datetime) -> None:
    """Checks that the signed-in user knows the password. Tries are limited as for signing in, so that a browser left
    open is no place to guess; counted separately, since strangers can use up the others. Raises WrongPassword,
    RateLimited."""
    key = f"proof:{user.pk}"
    SIGN_INS.take(key, now=now)
    if not user.check_password(password):
        raise WrongPassword
    SIGN_INS.clear(key, now=now)


def token_create(*, user: User, name: str, scope: Scope, now: datetime, expires_at: datetime | None) -> NewToken:
    """Makes a token; its secret is returned and not stored."""
    secret = TOKEN_MARK + secrets.token_urlsafe(TOKEN_BYTES)
    with transaction.atomic():
        token = Token.objects.create(
            user=user,
            name=name,
            prefix=secret[:12],
            digest=Token.digest_of(secret),
            scope=scope,
            created_at=now,
            expires_at=expires_at,
        )
        ends = expires_at.isoformat() if expires_at else None
        after = {"name": name, "scope": str(scope), "expires_at": ends}
        audit_write(Audited.TOKEN_CREATE, actor=user.username, target=token.prefix, now=now, after=after)
    return NewToken(token, secret)


def token_revoke(*, token: Token, now: datetime) -> None:
    """Revokes a token; open websockets that use it close within seconds. Idempotent."""
    with transaction.atomic():
        if Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            before = {"name": token.name, "scope": token.scope}
            audit_write(Audited.TOKEN_REVOKE, actor=token.user.username, target=token.prefix, now=now, before=before)


def token_touch(*, token: Token, now: datetime) -> None:
    """Notes that the token was used; at most one write a minute. The first use of a day (UTC) is audited."""
    last = token.last_used_at
    if last is not None and last >= now - TOUCH_EVERY:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - TOUCH_EVERY)
    with transaction.atomic():
        touched = Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        if touched and (last is None or last.astimezone(UTC).date() < now.astimezone(UTC).date()):
            audit_write(Audited.TOKEN_USE, actor=token.user.username, target=token.prefix, now=now)


def language_set(*, user: User, language: str, now: datetime) -> None:
    """Sets the language of the user's pages and mails; empty: as each browser asks."""
    with transaction.atomic():
        row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        before, row.language = row.language, language
        if before != language:
            row.save(update_fields=["language"])
            audit_write(
                Audited.USER_CHANGE, actor=user.username, target=user.username, now=now,
                before={"language": before}, after={"language": language},
            )  # fmt: skip
    user.language = language


class NameTaken(Conflict):
    """Another account has this name or uid."""


RESERVED = frozenset({"import"})
"""User names that mean something else in URLs of the API."""


def user_judged(
    *,
    username: str,
    password: str | None,
    email: str = "",
    role: str = ClusterRole.USER,
    uid: int | None = None,
    gid: int | None = None,
    extra_gids: Sequence[int] = (),
    rules: Sequence[Any] | None = None,
) -> tuple[User, ValidationError | None]:
    """An unsaved account, and every reason why it is invalid, except what other accounts have. Its password is
    validated but not hashed, which is slow. An administrator may also use Django's own admin pages, the back door."""
    admin = role == ClusterRole.ADMIN
    user = User(
        username=username, email=email, role=role, is_staff=admin, is_superuser=admin, uid=uid, gid=gid,
        extra_gids=list(extra_gids),
    )  # fmt: skip
    reasons: dict[str, list[ValidationError]] = {}
    if username in RESERVED:
        reasons["username"] = [ValidationError(gettext("This name is reserved."), code="reserved")]
    try:
        user.clean_fields(exclude={"password"})
    except ValidationError as error:
        reasons.update(error.error_dict)
    try:
        if password is not None:
            validate_password(password, user, rules)
    except ValidationError as error:
        reasons["password"] = error.error_list
    return user, ValidationError(reasons) if reasons else None


def user_store(*, user: User, now: datetime, actor: str = "") -> User:
    """Saves a draft whose password is set; without a uid it gets one of its own. Raises NameTaken."""
    if taken := next(iter(users_taken(users=[user])), None):
        raise NameTaken(sentence(taken.message))
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            if user.uid is None:
                _number_give(user)
            after = {"email": user.email, "role": str(user.role), **_numbers(user)}
            audit_write(Audited.USER_CREATE, actor=actor, target=user.username, now=now, after=after)
    except IntegrityError as error:
        raise NameTaken(
            gettext("%(user)s, or its uid, was taken at the same moment.") % {"user": user.username}
        ) from error
    return user


def _number_give(user: User) -> None:
    """Gives an account that was just saved a uid of its own. A number that was assigned by hand is skipped, with the
    key that it follows. Raises NameTaken if the range is used up."""
    while User.objects.filter(uid=settings.UID_FIRST + user.pk).exists():
        user.delete()
        user.save(force_insert=True)
    numbers = numbers_of_own(user)
    user.uid, user.gid = numbers["uid"], numbers["gid"]
    user.save(update_fields=["uid", "gid"])


def numbers_of_own(user: User) -> dict[str, int]:
    """A uid, and the gid with it, for an account without. Never issued before: it follows the account's key, which is
    never reused. Raises NameTaken if it was assigned to another by hand, or the range is used up."""
    number = settings.UID_FIRST + user.pk
    if number > settings.UID_LAST or User.objects.filter(uid=number).exclude(pk=user.pk).exists():
        words = gettext(
            "The uid %(uid)s, which %(user)s would get, is another account's or above BERTH_UID_LAST: give it one by "
            "hand, or the portal another range."
        )
        raise NameTaken(words % {"uid": number, "user": user.username})
    return {"uid": number, "gid": user.gid or number}


def _numbers(user: User) -> dict[str, Any]:
    given = {"uid": user.uid, "gid": user.gid, "extra_gids": user.extra_gids}
    return {name: value for name, value in given.items() if value}


class Taken(NamedTuple):
    """A value of an account that another one already has."""

    user: User
    path: str
    message: str


def users_taken(*, users: Sequence[User]) -> list[Taken]:
    """Which names and uids of these accounts others have; two queries for any number."""
    named = set(User.objects.filter(username__in=[user.username for user in users]).values_list("username", flat=True))
    uids = [user.uid for user in users if user.uid is not None]
    numbered = dict(User.objects.filter(uid__in=uids).values_list("uid", "username")) if uids else {}
    return [
        *(Taken(user, "username", gettext("there is a user %(name)s already") % {"name": user.username})
          for user in users if user.username in named),
        *(Taken(user, "uid", gettext("%(name)s has the uid %(uid)s") % {"name": numbered[user.uid], "uid": user.uid})
          for user in users if user.uid in numbered and numbered[user.uid] != user.username),
    ]  # fmt: skip


def user_create(
    *, username: str, password: str | None, actor: str = "", rules: Sequence[Any] | None = None, **more: Any
) -> User:
    """Creates an account; with ``password`` None nobody can log in by one. ``rules``: password validators in place of
    the portal's; ``more``: see ``user_judged``. Raises django's ValidationError, NameTaken."""
    user, wrong = user_judged(username=username, password=password, rules=rules, **more)
    if wrong is not None:
        raise wrong
    user.set_password(password)
    return user_store(user=user, now=timezone.now(), actor=actor)


def password_judge(*, user: User, password: str) -> None:
    """Raises django's ValidationError with every reason why the account may not have this password."""
    validate_password(password, user)


def user_set_password(*, user: User, password: str, actor: str = "", rules: Sequence[Any] | None = None) -> None:
    """Sets a password, by the account itself or by ``actor``; ends its browser sessions. ``rules``: password validators
    in place of the portal's. Raises django's ValidationError for a weak one."""
    validate_password(password, user, rules)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        audit_write(Audited.PASSWORD, actor=actor or user.username, target=user.username, now=timezone.now())

"""The first administrator of a new portal: whoever can read the code in a web process's log.

Each web process that starts while there is no administrator makes and prints a code of its own; any web process accepts
any of them, since their hashes are in the database.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime
from threading import Thread
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections, transaction
from django.utils import timezone
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, ClusterRole, FirstCode, User
from portal.accounts.services import SIGN_INS, user_create
from portal.common.errors import Denied, NotFound
from portal.common.throttles import by_address

log = logging.getLogger(__name__)

MOST_CODES = 20
"""Codes kept, of web processes started while there was no administrator; older ones are invalid."""


class WrongCode(Denied):
    """No web process has printed this code."""

    def __init__(self) -> None:
        super().__init__(gettext("This is not the code that stands in the log of the portal's web process."))


def first_needed() -> bool:
    """Whether there is no administrator yet. One query."""
    return not User.objects.filter(role=ClusterRole.ADMIN).exists()


def first_code_make(*, now: datetime) -> str:
    """Makes a code and returns its only copy."""
    code = secrets.token_urlsafe(16)
    with transaction.atomic():
        FirstCode.objects.create(digest=_digest(code), created_at=now)
        FirstCode.objects.exclude(pk__in=list(FirstCode.objects.values_list("pk", flat=True)[:MOST_CODES])).delete()
    return code


def first_administrator_make(*, code: str, username: str, password: str, address: str, now: datetime) -> User:
    """Creates the first administrator, and invalidates all codes. Raises NotFound if there is one already, WrongCode,
    RateLimited, django's ValidationError, NameTaken."""
    SIGN_INS.take(by_address(address), now=now)
    try:
        return _first_make(code, username, password, now)
    except WrongCode:
        audit_write(Audited.SIGN_IN_REFUSED, actor="", target="first administrator", now=now)
        raise


def _first_make(code: str, username: str, password: str, now: datetime) -> User:
    with transaction.atomic():
        codes = list(FirstCode.objects.select_for_update().order_by("pk"))  # a concurrent second request finds none
        if not first_needed():
            raise NotFound("page")
        if _digest(code) not in {one.digest for one in codes}:
            raise WrongCode
        user = user_create(username=username, password=password, role=ClusterRole.ADMIN)
        audit_write(Audited.SIGN_IN, actor=user.username, target=user.username, now=now, after={"by": "first code"})
        FirstCode.objects.all().delete()
    return user


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


# ---------------------------------------------------------------- start of a web process


def first_announce() -> None:
    """Logs the URL and code for the first administrator, if there is none."""
    try:
        if first_needed():
            code = first_code_make(now=timezone.now())
            log.warning("Nobody administers this cluster yet. Open %s/first and give the code %s", settings.URL, code)
    except DatabaseError as error:
        log.warning("whether there is an administrator is not known: %s", error)


def _announce_aside() -> None:
    first_announce()
    connections.close_all()


Message = MutableMapping[str, Any]


async def started(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """ASGI lifespan of a web process: serves at once, and announces meanwhile."""
    while (event := (await receive())["type"]) != "lifespan.shutdown":
        if event == "lifespan.startup":
            Thread(target=_announce_aside, daemon=True).start()
            await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})

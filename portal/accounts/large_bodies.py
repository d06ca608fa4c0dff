"""Authorisation of large bodies, before they are read: they reach the disk before any view sees the request."""

from __future__ import annotations

import logging
from typing import Any

from channels.db import database_sync_to_async
from django.utils.translation import gettext, gettext_noop

from portal.accounts.websockets import credential_of
from portal.common.errors import Denied, Unavailable
from portal.common.shares import Seat, Share

log = logging.getLogger(__name__)

LARGE_BODIES = Share(
    each=lambda: 8,
    overall=64,
    own=gettext_noop("You are sending too much at once (the most is %(most)s large uploads). Try again later."),
    full=gettext_noop("Too many large uploads are under way. Try again later."),
)
"""Limits large bodies under way in this process."""


class NotSignedIn(Denied):
    """The request has no valid credential."""

    status = 401
    title = gettext_noop("Not signed in")

    def __init__(self) -> None:
        super().__init__(gettext("So much is taken only of who is signed in: by a token that holds, or in a browser."))


async def large_body_seat(scope: Any) -> Seat:
    """A seat for one more large body of the request's user. Raises NotSignedIn, TooManyAtOnce, Busy, and Unavailable if
    the credential cannot be checked."""
    credential = credential_of(scope)
    try:
        user = None if credential is None else await database_sync_to_async(credential.user)()
    except Exception as error:
        log.exception("who sends a large body could not be asked")
        raise Unavailable(gettext("The portal cannot ask its database now. Try again later.")) from error
    if user is None:
        raise NotSignedIn
    return LARGE_BODIES.take(user.pk)

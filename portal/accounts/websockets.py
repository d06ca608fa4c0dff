"""Authentication of websockets: the API's credentials, rechecked while the socket is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils.translation import activate, gettext_noop

from portal.accounts.credentials import Credential, SessionCredential, TokenCredential
from portal.accounts.models import Token, User
from portal.common.errors import TooManyAtOnce
from portal.common.languages import socket_language
from portal.common.lasting import until_lost
from portal.common.origin import origin_socket
from portal.common.shares import Seat, Share

Scope = dict[str, Any]
Application = Callable[[Any, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]

BEARER_PROTOCOL = "bearer"  # new WebSocket(url, ["bearer", token]): browsers cannot set headers
CLOSED_UNASKED = 1013
"""Try again later (RFC 6455's registry): clients reconnect by themselves."""
CLOSED_NOT_SIGNED_IN = 4401
CLOSED_NOT_VISIBLE = 4404
CLOSED_TOO_MANY = 4429
SOCKETS = Share(
    each=lambda: settings.SOCKETS_PER_USER,
    own=gettext_noop(
        "You have too many live views open at once (the most is %(most)s). Close some of them, then try again."
    ),
)
"""Limits the total weight of a user's open websockets in this process."""


class SignedIn:
    """ASGI middleware that puts ``credential`` (or None) into the scope. Refuses a cookie from a foreign page: browsers
    send cookies with websockets that any page opens, so the Origin must be this portal."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await self.app({**scope, "credential": credential_of(scope)}, receive, send)


def credential_of(scope: Mapping[str, Any]) -> Credential | None:
    """The token in the header or the subprotocol list, else the session cookie from one of our own pages."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    kind, _, secret = headers.get(b"authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return TokenCredential(Token.digest_of(secret.strip()))
    offered = list(scope.get("subprotocols", []))
    if offered[:1] == [BEARER_PROTOCOL] and len(offered) == 2:
        return TokenCredential(Token.digest_of(offered[1]))
    key = parse_cookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if key and origin_is_ours(headers.get(b"origin", ""), headers.get(b"host", "")):
        return SessionCredential(key)
    return None


def origin_is_ours(origin: str, host: str) -> bool:
    """Whether that origin is this portal, by the same rules as Django's CSRF check."""
    domain, _ = split_domain_port(host)
    try:
        place = urlsplit(origin).netloc
    except ValueError:  # such as http://[
        return False
    same = validate_host(domain, settings.ALLOWED_HOSTS) and place == host
    return bool(origin) and (same or origin in settings.CSRF_TRUSTED_ORIGINS)


class SignedInConsumer(AsyncWebsocketConsumer):
    """A websocket of a signed-in user: ``user`` is set before ``opened`` is called. The socket closes within seconds
    after the session or token ends, or if that cannot be checked for long. Subclasses implement ``opened``, ``closed``
    and, if they cache what may be seen, ``rechecked``. ``weight``: its part of the user's share of sockets."""

    user: User
    weight = 1
    _watch: asyncio.Task[None] | None = None
    _seat: Seat | None = None
    _begun = False

    async def opened(self) -> None:
        """Called once the user is known, before the socket is accepted: accept or close it."""
        raise NotImplementedError

    async def closed(self) -> None:
        """Called once the socket is gone: end what ``opened`` began, even if that did not finish."""

    async def rechecked(self) -> None:
        """Called after the user was reloaded: reload what may be seen."""

    async def __call__(self, scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Handles one socket to its end. Cleanup is here and not in the disconnect handler, which is not called after a
        failure, such as an answer to a client that has just left."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._watch is not None:
                self._watch.cancel()
            try:
                if self._begun:
                    await self.closed()
            finally:
                if self._seat is not None:
                    self._seat.give_back()

    async def connect(self) -> None:
        user = await self._user_now()
        if user is None:
            # Accepted first: a browser's script sees a close code only of an open socket.
            await self.agree()
            await self.close(CLOSED_NOT_SIGNED_IN)
            return
        self._speak(user)
        try:
            self._seat = SOCKETS.take(user.pk, self.weight)
        except TooManyAtOnce as refused:
            await self.agree()
            await self.close(CLOSED_TOO_MANY, refused.detail)
            return
        self.user = user
        origin_socket((self.scope.get("client") or ("",))[0])
        self._begun = True
        await self.opened()
        self._watch = asyncio.create_task(self._watch_credential())

    def _speak(self, user: User) -> None:
        """Activates the page's language, or for a program (with a token) English. Applies to this socket's task, and to
        those that it starts."""
        if isinstance(self.credential, SessionCredential):
            headers = {name.lower(): value.decode("latin-1") for name, value in self.scope["headers"]}
            kept = parse_cookie(headers.get(b"cookie", "")).get(settings.LANGUAGE_COOKIE_NAME, "")
            accepted = headers.get(b"accept-language", "")
            activate(socket_language(chosen=user.language, kept=kept, accepted=accepted))

    async def agree(self) -> None:
        """Accepts the socket, with the subprotocol that carried a token."""
        offered = self.scope.get("subprotocols", [])
        await self.accept(BEARER_PROTOCOL if BEARER_PROTOCOL in offered else None)

    @property
    def credential(self) -> Credential | None:
        """The credential of the handshake; never None for a signed-in user."""
        return cast("Credential | None", cast(Scope, self.scope)["credential"])

    async def _user_now(self) -> User | None:
        credential = self.credential
        return None if credential is None else await database_sync_to_async(credential.user)()

    async def _watch_credential(self) -> None:
        if not await until_lost(self._asked):
            await self.close(CLOSED_UNASKED)

    async def _asked(self) -> bool:
        """Whether the user is still signed in, and may see what the socket shows; closes it if not."""
        user = await self._user_now()
        if user is None:
            await self.close(CLOSED_NOT_SIGNED_IN)
            return False
        self.user = user
        await self.rechecked()
        return True

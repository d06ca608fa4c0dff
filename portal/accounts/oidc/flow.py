"""The sign-in flow: redirect to the provider, and from its code to what it says of the person.

Authorization code flow with PKCE (RFC 7636), state and nonce. The state needed at the callback is kept by the browser,
signed, for ten minutes: nobody can fill the portal's memory before signing in.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from django.conf import settings
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.translation import gettext
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

from portal.accounts.addresses import address_validate
from portal.accounts.oidc.faults import SignInFault, not_exchanged, said_no, token_refused, unreachable
from portal.accounts.oidc.provider import TIMEOUT_S, Provider, provider_now, safe

log = logging.getLogger(__name__)

MOST_SUBJECT = 255  # as OpenID Connect allows
MOST_NAME = 150


class Trip(NamedTuple):
    """A sign-in under way. ``link``: the id of the account to tie to whoever signs in; 0: none."""

    state: str
    nonce: str
    verifier: str
    next: str
    link: int = 0


@dataclass(frozen=True, slots=True)
class Person:
    """A person as the provider describes them; verified. ``groups`` is None if no group is mapped to anything."""

    issuer: str
    subject: str
    username: str
    email: str
    groups: tuple[str, ...] | None


def callback_url() -> str:
    """The redirect URI, to be registered at the provider."""
    return f"{settings.URL}{reverse('oidc-callback')}"


def trip_begin(*, next: str, link: int = 0) -> tuple[Trip, str]:
    """Starts a sign-in; returns it with the provider's URL to go to. Raises SignInFault."""
    provider = provider_now()
    trip = Trip(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), next, link)
    url, _ = _session(provider).create_authorization_url(
        provider.about["authorization_endpoint"], state=trip.state, nonce=trip.nonce, code_verifier=trip.verifier
    )
    return trip, str(url)


def person_fetch(*, trip: Trip, answer: Mapping[str, str], now: datetime) -> Person:
    """Completes a sign-in; ``answer``: the callback's parameters. Raises SignInFault."""
    if not secrets.compare_digest(answer.get("state", "").encode(), trip.state.encode()):
        raise trip_lost()
    if "error" in answer:
        raise said_no(answer)
    provider = provider_now()
    if answer.get("iss", provider.issuer) != provider.issuer:  # RFC 9207
        raise trip_lost()
    session = _session(provider)
    claims = _claims(provider, _token(provider, session, trip, answer), trip, now)
    return _person(provider, {**_userinfo(provider, session, claims), **claims})


def trip_lost() -> SignInFault:
    """The callback belongs to no sign-in known to this browser."""
    return SignInFault(
        "state",
        gettext("This sign-in was begun in another browser, or more than ten minutes ago. Sign in again."),
        status=400,
    )


def _session(provider: Provider) -> OAuth2Session:
    return OAuth2Session(
        settings.OIDC_CLIENT_ID,
        settings.OIDC_CLIENT_SECRET,
        token_endpoint_auth_method=provider.token_method,
        scope=" ".join(dict.fromkeys(["openid", *settings.OIDC_SCOPES])),
        redirect_uri=callback_url(),
        code_challenge_method="S256",
        default_timeout=TIMEOUT_S,
    )


def _token(provider: Provider, session: OAuth2Session, trip: Trip, answer: Mapping[str, str]) -> Mapping[str, Any]:
    url = provider.about["token_endpoint"]
    try:
        token = session.fetch_token(
            url, code=answer.get("code", ""), code_verifier=trip.verifier, allow_redirects=False
        )
    except OAuthError as error:
        raise not_exchanged(error, callback_url()) from error
    except OSError as error:
        raise unreachable(url, error) from error
    if not isinstance(token.get("id_token"), str):
        raise SignInFault("id_token", gettext("The sign-in provider gave no ID token: is it one of OpenID Connect?"))
    return dict(token)


def _claims(provider: Provider, token: Mapping[str, Any], trip: Trip, now: datetime) -> dict[str, Any]:
    read: dict[str, Any] = {}
    client = settings.OIDC_CLIENT_ID
    try:
        decoded = _decoded(provider, token["id_token"])
        read = decoded.claims
        must = {"iss": provider.issuer, "aud": client}
        options = {name: {"essential": True, "value": value} for name, value in must.items()}
        options["sub"] = {"essential": True}
        asked = {"nonce": trip.nonce, "client_id": client, "access_token": token.get("access_token")}
        judged = CodeIDToken(read, decoded.header, options, asked)
        judged.validate(now=int(now.timestamp()), leeway=settings.OIDC_CLOCK_SKEW_S)
    except (JoseError, ValueError) as error:
        log.warning("an ID token of %s is not believed: %s", provider.issuer, error)
        raise token_refused(error, read, client=client, now=now) from error
    return read


def _decoded(provider: Provider, text: str) -> jwt.Token:
    try:
        return jwt.decode(text, provider.keys(), algorithms=provider.algorithms)
    except (InvalidKeyIdError, BadSignatureError):  # its keys may have been rotated
        return jwt.decode(text, provider.keys(anew=True), algorithms=provider.algorithms)


def _userinfo(provider: Provider, session: OAuth2Session, claims: Mapping[str, Any]) -> dict[str, Any]:
    """Claims that some providers send only from this endpoint."""
    wanted = [settings.OIDC_USER_CLAIM, *([settings.OIDC_GROUPS_CLAIM] if settings.OIDC_GRANTS else [])]
    url = provider.about.get("userinfo_endpoint")
    if not safe(url) or all(name in claims for name in wanted):
        return {}
    try:
        answer = session.get(url)
        told = answer.json() if answer.ok else {}
    except OSError as error:
        raise unreachable(str(url), error) from error
    return told if isinstance(told, dict) and told.get("sub") == claims["sub"] else {}


def _person(provider: Provider, claims: Mapping[str, Any]) -> Person:
    subject = str(claims["sub"])
    if len(subject) > MOST_SUBJECT or "\0" in subject:
        raise SignInFault("sub", gettext("The subject that the sign-in provider names cannot be kept."))
    # Account names have no @; names such as alice@example.org come from one organisation.
    username = str(claims.get(settings.OIDC_USER_CLAIM) or "").partition("@")[0]
    return Person(provider.issuer, subject, username.replace("\0", "")[:MOST_NAME], _email(claims), _groups(claims))


def _email(claims: Mapping[str, Any]) -> str:
    email = str(claims.get("email") or "")
    try:
        address_validate(email)
    except ValidationError:
        return ""
    return email if claims.get("email_verified", True) is True else ""


def _groups(claims: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The person's groups; raises if the claim is missing, which would take everybody's roles away."""
    if not settings.OIDC_GRANTS:
        return None
    told = claims.get(settings.OIDC_GROUPS_CLAIM)
    if isinstance(told, str):
        told = [told]
    if not isinstance(told, list):
        raise SignInFault(
            "groups",
            gettext(
                "The sign-in provider does not say in which groups you are: it must send the claim %(claim)s "
                "(BERTH_OIDC_GROUPS_CLAIM) to this client, perhaps by one more scope (BERTH_OIDC_SCOPES)."
            )
            % {"claim": settings.OIDC_GROUPS_CLAIM},
            status=403,
        )
    return tuple(map(str, told))

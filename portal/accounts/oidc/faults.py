"""Faults of a sign-in by a provider, each with a sentence that says how to fix it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from authlib.integrations.base_client import OAuthError
from django.utils.translation import gettext
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError

from nodes.protocol.connecting import EXPIRED, NOT_YET_VALID, WRONG_NAME
from portal.common.errors import Refused


class SignInFault(Refused):
    """A sign-in failed because of the provider, or of the portal's settings for it. ``code`` names the fault for
    programs and the log."""

    status = 502

    def __init__(self, code: str, detail: str, *, status: int | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status or self.status


def unreachable(url: str, error: Exception) -> SignInFault:
    """The provider did not answer at all; ``error`` is what requests raises, also if it cannot read the CA bundle."""
    inner = _innermost(error)
    code, words = _trouble(inner)
    said = getattr(inner, "verify_message", "") or str(inner).rpartition(": ")[2][:200]
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    return SignInFault(code, words % {"url": url, "error": said, "now": now, "host": urlsplit(url).hostname or ""})


def _trouble(error: Exception) -> tuple[str, str]:
    """The fault's code, and a sentence with placeholders."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "certificate", _not_trusted(error.verify_code)
    if isinstance(error, ssl.SSLError):
        return "tls", gettext(
            "The sign-in provider at %(url)s does not speak TLS (%(error)s): correct the port or the beginning of "
            "BERTH_OIDC_ISSUER."
        )
    if "TLS CA certificate bundle" in str(error):
        return "authorities", gettext(
            "The authorities by which the sign-in provider at %(url)s is known cannot be read (%(error)s): correct "
            "REQUESTS_CA_BUNDLE."
        )
    return "unreachable", gettext(
        "The sign-in provider does not answer at %(url)s (%(error)s): it is down, BERTH_OIDC_ISSUER is wrong, or the "
        "portal's server may not reach it."
    )


def _not_trusted(verify_code: int) -> str:
    if verify_code == EXPIRED:
        return gettext(
            "The certificate of the sign-in provider at %(url)s has expired: renew it there, or set the clock of the "
            "portal's server right (it says %(now)s UTC)."
        )
    if verify_code == NOT_YET_VALID:
        return gettext(
            "The certificate of the sign-in provider at %(url)s is not valid yet: the clock of the portal's server "
            "says %(now)s UTC; set it right."
        )
    if verify_code in WRONG_NAME:
        return gettext(
            "The certificate of the sign-in provider at %(url)s is for another name: write the name that it has into "
            "BERTH_OIDC_ISSUER, or have one made for %(host)s."
        )
    return gettext(
        "The certificate of the sign-in provider at %(url)s is signed by an authority that the portal's server does "
        "not know (%(error)s): name its file in REQUESTS_CA_BUNDLE."
    )


def _innermost(error: Exception) -> Exception:
    """The innermost exception; the others only wrap it."""
    while deeper := next(
        (one for one in (getattr(error, "reason", None), *error.args[:1]) if isinstance(one, Exception)), None
    ):
        error = deeper
    return error


def not_yet(url: str) -> SignInFault:
    """Another thread is waiting for the provider, which has not answered yet."""
    return SignInFault(
        "unreachable",
        gettext("The sign-in provider at %(url)s has not answered yet. Try again in some seconds.") % {"url": url},
    )


def not_a_provider(url: str, status: int) -> SignInFault:
    """Something other than a provider answers at this URL."""
    return SignInFault(
        "issuer",
        gettext(
            "%(url)s answers %(status)s and no description of a sign-in provider: BERTH_OIDC_ISSUER is not the address "
            "that the provider calls its issuer."
        )
        % {"url": url, "status": status},
    )


def other_issuer(said: object, expected: str) -> SignInFault:
    """The provider's issuer is not the one in the settings."""
    return SignInFault(
        "issuer",
        gettext(
            "The sign-in provider calls itself %(said)s, and BERTH_OIDC_ISSUER is %(expected)s: they must be the same "
            "to the last character."
        )
        % {"said": said, "expected": expected},
    )


def not_exchanged(error: OAuthError, redirect: str) -> SignInFault:
    """The provider gave no token for its code."""
    words = {
        "invalid_client": gettext(
            "The sign-in provider does not accept BERTH_OIDC_CLIENT_ID and BERTH_OIDC_CLIENT_SECRET: one of them is "
            "wrong, or the secret has expired."
        ),
        "invalid_grant": gettext(
            "The sign-in provider does not take its own code back: it was used already or is too old (sign in again), "
            "or the redirect URI that the provider knows is not %(redirect)s."
        )
        % {"redirect": redirect},
        "unauthorized_client": gettext(
            "The sign-in provider does not let this client sign people in: allow it the authorization code flow there."
        ),
    }
    return SignInFault(error.error or "token", words.get(error.error) or _said(error.error, error.description))


def said_no(parameters: Mapping[str, str]) -> SignInFault:
    """The provider redirected back with an error."""
    error = parameters.get("error", "")
    if not re.fullmatch(r"[a-z_]{1,60}", error):
        error = "unknown"
    words = {
        "access_denied": gettext("The sign-in provider did not let you in, or you broke off there."),
        "invalid_scope": gettext("The sign-in provider does not know a scope of BERTH_OIDC_SCOPES."),
        "login_required": gettext("You are not logged in at the sign-in provider."),
    }
    status = 403 if error in {"access_denied", "login_required"} else None
    return SignInFault(error, words.get(error) or _said(error, parameters.get("error_description", "")), status=status)


def _said(error: str | None, description: str | None) -> str:
    told = ": ".join(part for part in (error or "", (description or "")[:300]) if part)
    return gettext("The sign-in provider refuses: %(told)s.") % {"told": told.rstrip(".")}


def token_refused(
    error: JoseError | ValueError, claims: Mapping[str, Any], *, client: str, now: datetime
) -> SignInFault:
    """The ID token is not valid, and why."""
    claim = getattr(error, "claim", "")
    if isinstance(error, ExpiredTokenError) or claim in {"iat", "nbf", "exp"}:
        return _clock(claims, now)
    if isinstance(error, MissingClaimError | InvalidClaimError):
        words = {
            "aud": gettext("it is for another client than BERTH_OIDC_CLIENT_ID (%(client)s)") % {"client": client},
            "azp": gettext("it is for another client than BERTH_OIDC_CLIENT_ID (%(client)s)") % {"client": client},
            "iss": gettext("its issuer is not BERTH_OIDC_ISSUER"),
            "nonce": gettext("it is not the answer to this sign-in; sign in again"),
        }
        return _unbelieved(claim, words.get(claim) or gettext("its claim %(claim)s is not right") % {"claim": claim})
    return _unbelieved("signature", gettext("it is not signed by a key that the provider publishes"))


def _unbelieved(code: str, why: str) -> SignInFault:
    return SignInFault(
        code, gettext("What the sign-in provider says is not believed: %(why)s.") % {"why": why}, status=403
    )


def _clock(claims: Mapping[str, Any], now: datetime) -> SignInFault:
    def moment(name: str) -> str:
        at = claims.get(name)
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}" if isinstance(at, int | float) else "?"

    return SignInFault(
        "clock",
        gettext(
            "What the sign-in provider says holds from %(since)s to %(until)s UTC, and here it is %(now)s: one of the "
            "two clocks is wrong."
        )
        % {"since": moment("iat"), "until": moment("exp"), "now": f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S}"},
        status=403,
    )

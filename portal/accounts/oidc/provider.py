"""The configured provider: its discovery document and its keys."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.utils.translation import get_language
from joserfc.jwk import KeySet

from portal.accounts.oidc.faults import SignInFault, not_a_provider, not_yet, other_issuer, unreachable

TIMEOUT_S = 10.0
KEPT_S = 600.0
"""How long the discovery document is cached."""
FAULT_KEPT_S = 5.0
"""How long a failure to read it is cached."""
OTHERS_WAIT_S = 1.0
"""How long other threads wait for the one that asks."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric ones only: a token signed with the client's secret, or not at all, is never trusted."""
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")


def configured() -> bool:
    """Whether sign-in by a provider is set up."""
    return bool(settings.OIDC_ISSUER and settings.OIDC_CLIENT_ID)


def provider_name() -> str:
    """The provider's name for people."""
    return settings.OIDC_NAME or urlsplit(settings.OIDC_ISSUER).hostname or ""


def safe(url: object) -> bool:
    """Whether nobody can eavesdrop on requests to this URL: https, or this very machine."""
    parts = urlsplit(str(url))
    if parts.scheme == "https" and parts.hostname:
        return True
    try:
        return parts.scheme == "http" and ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.scheme == "http" and parts.hostname == "localhost"


@dataclass
class Provider:
    """A provider's metadata (OpenID Connect Discovery 1.0)."""

    issuer: str
    about: dict[str, Any]
    read_at: float
    _keys: KeySet | None = field(default=None, repr=False)

    @property
    def algorithms(self) -> list[str]:
        """The signing algorithms accepted for its tokens."""
        said = self.about.get("id_token_signing_alg_values_supported") or ["RS256"]
        return [one for one in ALGORITHMS if one in said] or ["RS256"]

    @property
    def token_method(self) -> str:
        """How the client authenticates at the token endpoint."""
        known = self.about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if not settings.OIDC_CLIENT_SECRET:
            return "none"
        return "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"

    def keys(self, *, anew: bool = False) -> KeySet:
        """The keys that it publishes; fetched again if ``anew``. Raises SignInFault."""
        if self._keys is None or anew:
            url = self.about["jwks_uri"]
            try:
                self._keys = KeySet.import_key_set(_json(url))
            except (KeyError, TypeError, ValueError):
                raise not_a_provider(url, 200) from None
        return self._keys


@dataclass(frozen=True, slots=True)
class _Failed:
    """The last failure to read the provider's metadata."""

    code: str
    detail: str
    status: int
    at: float


class ProviderCache:
    """Providers by issuer, each cached for ten minutes, and the last failure to read one, for some seconds."""

    def __init__(self) -> None:
        self._known: dict[str, Provider] = {}
        self._failed: dict[tuple[str, str | None], _Failed] = {}  # by issuer and language of the message
        self._asking = Lock()

    def read(self, issuer: str, *, anew: bool) -> Provider:
        """The provider, asked again if ``anew``. One thread asks at a time: if it hangs it holds up no other. Raises
        SignInFault."""
        if not anew and (known := self._fresh(issuer)):
            return known
        if not self._asking.acquire(timeout=TIMEOUT_S if anew else OTHERS_WAIT_S):
            if issuer in self._known and not anew:
                return self._known[issuer]
            raise not_yet(issuer)
        try:
            if not anew and (known := self._fresh(issuer)):
                return known
            known = self._known[issuer] = Provider(issuer, _read(issuer), time.monotonic())
            return known
        except SignInFault as fault:
            failed = _Failed(fault.code, fault.detail, fault.status, time.monotonic())
            self._failed[issuer, get_language()] = failed
            raise
        finally:
            self._asking.release()

    def _fresh(self, issuer: str) -> Provider | None:
        """The cached provider; None if it must be asked. Raises SignInFault if it failed just now."""
        now = time.monotonic()
        known = self._known.get(issuer)
        if known is not None and now - known.read_at <= KEPT_S:
            return known
        failed = self._failed.get((issuer, get_language()))
        if failed is not None and now - failed.at <= FAULT_KEPT_S:
            raise SignInFault(failed.code, failed.detail, status=failed.status)
        return None


_PROVIDERS = ProviderCache()


def provider_now(*, anew: bool = False) -> Provider:
    """The configured provider, cached unless ``anew``. Raises SignInFault."""
    return _PROVIDERS.read(settings.OIDC_ISSUER, anew=anew)


def _read(issuer: str) -> dict[str, Any]:
    url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    about = _json(url)
    if not isinstance(about, dict) or any(not safe(about.get(name)) for name in NEEDED):
        raise not_a_provider(url, 200)
    if about.get("issuer") != issuer:
        raise other_issuer(about.get("issuer"), issuer)
    return about


def _json(url: str) -> Any:
    try:
        answer = requests.get(url, timeout=TIMEOUT_S, headers={"Accept": "application/json"})
    except OSError as error:
        raise unreachable(url, error) from error
    try:
        if answer.status_code == requests.codes.ok:
            return answer.json()
    except ValueError:
        pass
    raise not_a_provider(url, answer.status_code)

"""Signing in by an OpenID provider: what it says is fetched and judged here, and nothing is stored."""

from portal.accounts.oidc.faults import SignInFault
from portal.accounts.oidc.flow import Person, Trip, callback_url, person_fetch, trip_begin
from portal.accounts.oidc.provider import configured, provider_name, provider_now

__all__ = [
    "Person",
    "SignInFault",
    "Trip",
    "callback_url",
    "configured",
    "person_fetch",
    "provider_name",
    "provider_now",
    "trip_begin",
]

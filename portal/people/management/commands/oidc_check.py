"""``manage.py oidc_check``: whether people can sign in by the provider of the settings, as far as that can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.management.base import CommandError

from portal.accounts.oidc.faults import SignInFault
from portal.accounts.oidc.flow import callback_url
from portal.accounts.oidc.provider import configured, provider_now
from portal.common.commands import PortalCommand
from portal.env.grants import Grant
from portal.teams.models import VirtualCluster


class Command(PortalCommand):
    help = (
        "Ask the provider of BERTH_OIDC_ISSUER who it is, and say what it must know and what of the roles is missing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not configured():
            raise CommandError("BERTH_OIDC_ISSUER and BERTH_OIDC_CLIENT_ID are not set.")
        try:
            provider = provider_now(anew=True)
            keys = len(provider.keys(anew=True).keys)
        except SignInFault as fault:
            raise CommandError(fault.detail) from None
        told = {
            "issuer": provider.issuer,
            "redirect URI": f"{callback_url()}  (the provider must know exactly this one)",
            "signatures": f"{', '.join(provider.algorithms)} by {keys} published keys",
            "client": f"{settings.OIDC_CLIENT_ID}, {provider.token_method}",
        }
        for name, value in [*told.items(), *_grants()]:
            self.stdout.write(f"{name:16}  {value}")


def _grants() -> Iterator[tuple[str, str]]:
    groups = set(Group.objects.values_list("name", flat=True))
    vcs = set(VirtualCluster.objects.values_list("name", flat=True))
    for group, grants in settings.OIDC_GRANTS.items():
        for grant in grants:
            yield group, f"{':'.join(filter(None, grant))}{_missing(grant, groups, vcs)}"


def _missing(grant: Grant, groups: set[str], vcs: set[str]) -> str:
    if grant.kind == "group" and grant.name not in groups:
        return f": there is no group {grant.name}"
    if grant.kind in {"lead", "member"} and grant.name not in vcs:
        return f": there is no virtual cluster {grant.name}"
    return ""

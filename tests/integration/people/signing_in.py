"""The steps of a sign-in by a provider, and what comes of it."""

from __future__ import annotations

from typing import Any

from portal.accounts.models import User
from portal.env.grants import Grant
from portal.teams.models import Membership
from tests.support.people.pages import Browser, Page
from tests.support.services.oidc.provider import Provider

CALLBACK = "http://127.0.0.1:8000/login/oidc/callback"
GRANTS = {
    "gpu-admins": (Grant("admin"),),
    "gpu-audit": (Grant("auditor"),),
    "vision-leads": (Grant("lead", "vision"),),
    "vision": (Grant("member", "vision"), Grant("group", "seeing")),
    "gone": (Grant("lead", "no-such"), Grant("group", "no-such")),
}


def time_now() -> Any:
    from django.utils import timezone

    return timezone.now()


def eve(*groups: str, **more: Any) -> dict[str, Any]:
    return {"preferred_username": "eve@example.org", "email": "eve@example.org", "groups": list(groups), **more}


def begin(browser: Browser, path: str = "/login/oidc") -> str:
    """The provider's address to which the portal leads."""
    answer = browser.client.get(path)
    assert answer.status_code == 302, answer.content.decode()
    return str(answer.headers["Location"])


def sign_in(provider: Provider, browser: Browser | None = None, name: str = "eve", path: str = "/login/oidc") -> Page:
    """The whole way, to the page at its end."""
    browser = browser or Browser()
    return arrive(browser, provider.approve(begin(browser, path), name))


def arrive(browser: Browser, address: str) -> Page:
    return Page(browser.client.get(address, follow=True))  # type: ignore[arg-type]


def rights() -> tuple[str, list[str], dict[str, str]]:
    """Of eve: the role in the cluster, the groups, the roles in virtual clusters."""
    user = User.objects.get(username="eve")
    held = Membership.objects.filter(user=user).values_list("vc__name", "role")
    return user.role, sorted(group.name for group in user.groups.all()), dict(held)

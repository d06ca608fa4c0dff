"""A real OpenID provider, and a portal that knows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from tests.support.services.oidc.provider import CLIENT, SECRET, Provider
from tests.support.services.services import Services


@pytest.fixture(scope="module")
def running(services: Services) -> Iterator[Provider]:
    from tests.integration.people.signing_in import CALLBACK

    users: dict[str, dict[str, Any]] = {name: {} for name in ("eve", "mallory")}
    with closing(Provider(services, redirect=CALLBACK, users=users)) as made:
        made.start()
        yield made


@pytest.fixture
def provider(running: Provider, settings: Settings) -> Provider:
    from django.contrib.auth.models import Group

    from portal.teams.services.teams import vc_create
    from tests.integration.people.signing_in import GRANTS, eve, time_now

    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = running.issuer, CLIENT, SECRET
    settings.OIDC_NAME, settings.OIDC_GRANTS = "Example", GRANTS
    running.tell(users={"eve": eve("vision")}, lie={})
    vc_create(name="vision", now=time_now())
    Group.objects.create(name="seeing")
    return running

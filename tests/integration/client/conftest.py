"""A real portal with a cluster of scripted nodes, and the client and the command as its people use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from berth import Client
from tests.support.people.shell import Shell
from tests.support.services.proxy import CuttingProxy

if TYPE_CHECKING:
    from portal.accounts.models import User
    from tests.support.cluster.world import World
    from tests.support.people.live_web import LiveWeb


def token_for(user: User, **changes: object) -> str:
    """The secret of a new token."""
    from django.utils import timezone

    from portal.accounts.models import Scope
    from portal.accounts.services import token_create

    options = {"scope": Scope.ADMIN, "expires_at": None, **changes}
    return token_create(user=user, name="tests", now=timezone.now(), **options).secret  # type: ignore[arg-type]


@pytest.fixture
def world(transactional_db: None) -> World:
    from tests.support.cluster.world import World

    return World()


@pytest.fixture
def web(world: World) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    with live_web() as running:
        yield running


@pytest.fixture
def url(web: LiveWeb) -> str:
    return f"http://{web.host}"


@pytest.fixture
def token(world: World) -> str:
    """Alice's."""
    return token_for(world.user)


@pytest.fixture
def berth(url: str, token: str) -> Iterator[Client]:
    """Alice's client."""
    with Client(url, token, trust_env=False) as made:
        yield made


@pytest.fixture
def proxy(url: str) -> Iterator[CuttingProxy]:
    made = CuttingProxy(url)
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path: Path, url: str, token: str) -> Shell:
    """Alice's terminal."""
    return Shell(tmp_path, url, token)

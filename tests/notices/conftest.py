"""A cluster of scripted nodes, a mail server and a receiver of webhooks on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest
from pytest_django.fixtures import Settings

if TYPE_CHECKING:
    from tests.support.mail_server import MailServer
    from tests.support.receiver import Receiver
    from tests.support.world import World


@pytest.fixture
def world(db: None) -> World:
    from portal.notices.services import notices_gather
    from tests.support.world import World

    world = World()
    world.user.email = "alice@example.org"
    world.user.save()
    notices_gather(now=world.now)
    return world


@pytest.fixture
def mail_server(settings: Settings) -> Iterator[MailServer]:
    """Where the portal sends its mail."""
    from tests.support.mail_server import MailServer

    with closing(MailServer()) as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_ON, settings.EMAIL_FROM = True, "Berth <berth@example.org>"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    """Where a webhook may point: loopback, which the settings allow for it."""
    from tests.support.receiver import Receiver

    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.1")]
    with closing(Receiver()) as receiver:
        yield receiver

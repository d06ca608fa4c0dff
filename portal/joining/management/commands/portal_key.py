"""``manage.py portal_key``: what agents need to know the portal's orders by."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from portal.common.commands import PortalCommand


class Command(PortalCommand):
    help = "Print the portal's public key, for BERTH_NODE_PORTAL_PUBLIC_KEY of its agents."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(settings.PORTAL_KEY.public)

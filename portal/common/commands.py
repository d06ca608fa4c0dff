"""Commands of ``manage.py``."""

from __future__ import annotations

from django.core.checks import Tags
from django.core.management.base import BaseCommand


class PortalCommand(BaseCommand):
    """A command before which only the settings are checked. All of Django's checks import every page and every
    operation of the API, which takes longer than most commands."""

    requires_system_checks = [Tags.compatibility]

"""``manage.py node_add NAME --public-key KEY``: let a server join."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from portal.clusters.services import node_add
from portal.common.errors import Refused


class Command(BaseCommand):
    help = "Register a GPU server by the public key that `python -m nodes key` printed there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the agent's BERTH_NODE_NAME")
        parser.add_argument("--public-key", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            node = node_add(name=options["name"], public_key=options["public_key"], now=timezone.now())
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stdout.write(f"Node {node.name} may report now.")

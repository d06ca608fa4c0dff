"""``manage.py node_add NAME --public-key KEY``: let a server join, and say what is typed there."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.common.commands import PortalCommand
from portal.common.errors import Refused
from portal.joining.services.joining import (
    PASSWORD,
    agent_environment,
    agent_lines,
    node_register,
    redis_is_out_of_reach,
)


class Command(PortalCommand):
    help = (
        "Register a GPU server by the public key that `berth-node key` printed there. Prints the lines that write its "
        "settings there, with the password of its account in Redis; again by the same key, the same."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the agent's BERTH_NODE_NAME")
        parser.add_argument("--public-key", required=True)
        parser.add_argument(
            "--accept", action="store_true", help="accept unseen what its first report says; else an administrator does"
        )
        parser.add_argument(
            "--cpu-tasks", action="store_true", help="with --accept: tasks without GPUs may run there, too"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["public_key"]:
            raise CommandError("--public-key is empty; `berth-node key` prints it on the server.")
        try:
            made = node_register(
                name=options["name"], public_key=options["public_key"], actor="", now=timezone.now(),
                accept=options["accept"], cpu_tasks=options["cpu_tasks"],
            )  # fmt: skip
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        environment = agent_environment(node=made.node, secret=True)
        self.stderr.write(f"Node {made.node.name} may report now. These lines, typed on it, write its settings:")
        self.stdout.write(agent_lines(environment).rstrip())
        if f":{PASSWORD}@" in environment["BERTH_NODE_REDIS_URL"]:
            self.stderr.write(f"Put the password of the portal's Redis where {PASSWORD} stands.")
        if redis_is_out_of_reach():
            self.stderr.write("The portal's Redis listens on this machine only: no other reaches it by that address.")

"""``manage.py import_openpai``: users, groups, virtual clusters and storages of an OpenPAI cluster."""

from __future__ import annotations

import os
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.resets import reset_link_make
from portal.common.commands import PortalCommand
from portal.common.errors import Refused
from portal.openpai.importing.plan import Plan, What, plan_make
from portal.openpai.importing.source import Place, Source, source_read
from portal.openpai.importing.ways import Unreadable, from_files, from_server
from portal.openpai.services.importing import import_apply

TOKEN = "OPENPAI_TOKEN"  # noqa: S105  # the variable's name
NFS_ROOT = "/mnt/berth"
"""Where agents mount, unless they are told otherwise."""


class Command(PortalCommand):
    help = (
        "Bring users, groups, virtual clusters and storages over from OpenPAI: from its REST API (--url, with an "
        f"administrator's token in {TOKEN}) or from saved answers. Says what it would do; --apply does it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, help="saved answers, or folders with them")
        parser.add_argument("--url", help="address of the OpenPAI cluster, such as https://pai.example.org")
        parser.add_argument(
            "--storage-root", default=NFS_ROOT,
            help=f"the servers' BERTH_NODE_NFS_ROOT, below which their agents mount storages; default: {NFS_ROOT}",
        )  # fmt: skip
        parser.add_argument("--apply", action="store_true", help="do it, all or nothing")
        parser.add_argument("--leave-out-wrong", action="store_true", help="do it without the rows that cannot be")
        parser.add_argument(
            "--links", action="store_true", help="with --apply: a link for a password for each account without one"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source = self._source(options["files"], options["url"])
        plan = plan_make(source=source, root=options["storage_root"])
        self._show(plan)
        if plan.wrong and not options["leave_out_wrong"]:
            raise CommandError(
                f"{len(plan.wrong)} rows cannot be; nothing was done. Mend them, or leave them out: --leave-out-wrong"
            )
        if not options["apply"]:
            self.stderr.write("Nothing was done; --apply does it.")
            return
        administer = {group.name for group in source.groups if group.admin}
        try:
            made = import_apply(plan=plan, administer=administer, now=timezone.now(), actor="")
        except Refused as refusal:
            raise CommandError(f"{refusal.detail} Nothing was done.") from None
        except DatabaseError as error:
            raise CommandError(
                f"The database does not take it ({_plain(str(error).strip())}). Nothing was done."
            ) from error
        self._links(source, made, everybody=options["links"])

    def _source(self, files: list[Path], url: str | None) -> Source:
        if bool(files) == bool(url):
            raise CommandError("Name files, or the cluster's address by --url.")
        try:
            if not url:
                return source_read(from_files(files))
            token = os.environ.get(TOKEN, "")
            if not token:
                raise CommandError(f"Put the token of an administrator of OpenPAI into the variable {TOKEN}.")
            return source_read(from_server(url, token))
        except Unreadable as error:
            raise CommandError(_plain(str(error))) from None

    def _show(self, plan: Plan) -> None:
        kinds = max((len(row.kind) for row in plan.rows), default=0)
        names = max((len(row.name) for row in plan.rows), default=0)
        for row in plan.rows:
            words = "; ".join(f"{fault.path}: {fault.message}" for fault in row.faults) or row.told
            self.stdout.write(_plain(f"{row.kind:{kinds}}  {row.name:{names}}  {row.what:9}  {words}".rstrip()))
        counts = {what: sum(row.what == what for row in plan.rows) for what in What}
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        self.stderr.write(told or "There is nothing to bring over.")
        self._show_servers(plan)

    def _show_servers(self, plan: Plan) -> None:
        """What the agents must allow, so that they mount these storages."""
        places = [row.thing for row in plan.rows if row.what == What.MAKE and isinstance(row.thing, Place)]
        if not places:
            return
        root = plan.root.rstrip("/")
        if len(PurePosixPath(root).parts) < 3:  # such as /mnt itself: no agent takes it for its own
            told = [f"BERTH_NODE_MOUNT_ROOTS={root or '/'}"]
            self.stderr.write("Mount these storages on each server (/etc/fstab); in its /etc/berth-node.env belongs:")
        else:
            servers = sorted({escape(place.export.partition(":/")[0]) for place in places})
            told = [f"BERTH_NODE_NFS_SERVERS={','.join(servers)}"]
            told += [f"BERTH_NODE_NFS_ROOT={root}"] if root != NFS_ROOT else []
            self.stderr.write("Servers with nfs-common mount these storages where /etc/berth-node.env says:")
        for line in told:
            self.stderr.write(_plain(line))

    def _links(self, source: Source, made: list[User], *, everybody: bool) -> None:
        """Passwords cannot be brought over: OpenPAI gives out none. Each account gets a link instead."""
        if everybody:
            named = User.objects.filter(username__in=[one.username for one in source.people], is_active=True)
            made = [user for user in named.order_by("username") if not user.has_usable_password()]
        if not made or not settings.PASSWORDS:
            return
        self.stderr.write("Passwords are not brought over. Each sets their own, once and within a day, here:")
        for user in made:
            self.stdout.write(f"{user.username}  {reset_link_make(user=user, now=timezone.now(), actor='')}")


def _plain(text: str) -> str:
    """What the other cluster says decides here what an administrator agrees to: nothing in it moves the cursor, or
    begins a line that looks like another row."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)

"""The cluster as a HiveD-style configuration: ``cluster import FILE [--dry-run]`` and ``cluster export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from portal.cluster.services.configuration import configuration_export, configuration_read
from portal.common.commands import PortalCommand
from portal.common.errors import Invalid, Refused
from portal.common.plain_yaml import UniqueLoader
from portal.scheduler.changes import configuration_change


class Command(PortalCommand):
    help = "Reads or writes cells, virtual clusters and quotas as a HiveD-style configuration (YAML or JSON)."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_subparsers(dest="what", required=True)
        take = what.add_parser("import", help="make a file the cluster's configuration")
        take.add_argument("file", help="YAML or JSON; - for standard input")
        take.add_argument("--dry-run", action="store_true", help="only say what would be")
        what.add_parser("export", help="print the cluster's configuration as YAML")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["what"] == "export":
            self.stdout.write(yaml.safe_dump(configuration_export(), sort_keys=False, allow_unicode=True), ending="")
            return
        self._import(options["file"], dry_run=options["dry_run"])

    def _import(self, file: str, *, dry_run: bool) -> None:
        document = _read(file)
        try:
            found = configuration_read(document)
            effect = configuration_change(found=found, now=timezone.now(), actor="", dry_run=dry_run)
        except Invalid as error:
            faults = "\n".join(f"  {fault.path}: {fault.message}" for fault in error.faults)
            raise CommandError(f"{file} cannot be used, nothing was changed:\n{faults}") from error
        except Refused as error:
            raise CommandError(error.detail) from error
        for move in effect.quotas:
            chain = f" ({move.chain})" if move.chain else ""
            self.stdout.write(f"Quota of {move.vc}, {move.cell_type}{chain}: {move.before} -> {move.after}.")
        for one in effect.demoted:
            self.stdout.write(f"{one.job.label} of {one.job.vc.name} runs on, but its GPUs are on loan.")
        for one in effect.preempted:
            self.stdout.write(f"{one.job.label} of {one.job.vc.name} is warned and stopped: its GPUs are wanted back.")
        quotas = len(found.virtual_clusters)
        said = f"{len(found.nodes)} nodes, {quotas} virtual clusters, {len(effect.demoted)} jobs demoted"
        self.stdout.write(f"Would be: {said}. Nothing was changed." if dry_run else f"Done: {said}.")


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return yaml.load(text, Loader=UniqueLoader)  # noqa: S506  # a safe loader, and less
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{file} is neither YAML nor JSON: {error}") from error

"""``manage.py replay FILE [--follow]``: HiveD's own cases through the scheduling engine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.config import ConfigError
from scheduling.simulator.replay import CaseFile, Tally, read, replay

UNREADABLE = 2
"""What the command ends with when the file is no case file; with differences it ends with 1."""


class Command(BaseCommand):
    help = "Replay a file of HiveD's cases and print where the scheduling engine answers otherwise, a JSON line each."
    requires_system_checks = []  # it asks nothing of the portal but the engine

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="JSON: configs, pods and tests with their steps")
        parser.add_argument(
            "--follow", action="store_true", help="after each decision go on from the recorded one, not from ours"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        cases = _cases(options["file"])
        tally = Tally()
        for difference in replay(cases, options["follow"], tally):
            self.stdout.write(json.dumps(difference._asdict()))
        self.stdout.write(json.dumps(asdict(tally)))
        if tally.differences:
            sys.exit(1)


def _cases(path: Path) -> CaseFile:
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", returncode=UNREADABLE) from None
    except (ValueError, RecursionError) as error:
        faults = error.faults if isinstance(error, ConfigError) else (error,)
        told = "\n".join(f"  {fault}" for fault in faults)
        raise CommandError(f"{path} is no file of cases:\n{told}", returncode=UNREADABLE) from None

"""An installation that does not run, for what is done to it meanwhile."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from portal.upkeep.archive import ArchiveReader
from tests.support.services.forks import ROOT, Forks
from tests.support.services.processes import finished
from tests.support.services.services import Services


@dataclass
class Portal:
    """Its data folder and its database; an empty one is the file in the folder. With `services`, its commands are forks
    of one process that has imported what they begin with: not where keys are replaced, which that has read."""

    folder: Path
    database: str
    services: Services | None = None
    cluster: str = "berth"

    def manage(self, *words: str, status: int = 0, **more: str) -> str:
        """A command's output; `more` is added to its environment."""
        done = self._run([sys.executable, "manage.py", *words], more)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def module(self, name: str, *words: str, **more: str) -> str:
        """What a module of the tests prints that looks into it."""
        done = self._run([sys.executable, "-m", name, *words], more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _run(self, command: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return finished(command, self.environment | more, ROOT, None if more else self._forks)

    @cached_property
    def _forks(self) -> Forks | None:
        return self.services.portal(self.services.new_folder("upkeep"), self.environment) if self.services else None

    @property
    def environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
        env |= {"BERTH_DATA_DIR": str(self.folder), "BERTH_CLUSTER": self.cluster, "BERTH_ENGINE": "python"}
        return env | ({"BERTH_DATABASE_URL": self.database} if self.database else {})

    def rows(self, file: Path) -> dict[str, list[dict[str, object]]]:
        """What a backup of it holds, by table."""
        self.manage("backup", str(file))
        found = {}
        for name, content in ArchiveReader(file).entries():
            if name.startswith("database/"):
                columns, *rows = map(json.loads, gzip.decompress(content.read()).splitlines())
                found[name.split("/")[1].removesuffix(".jsonl.gz")] = [
                    dict(zip(columns, row, strict=True)) for row in rows
                ]
        return found

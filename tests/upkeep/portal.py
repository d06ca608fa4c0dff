"""An installation that does not run, for what is done to it meanwhile."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from portal.upkeep.archive import ArchiveReader
from tests.support.stack import ROOT


@dataclass
class Portal:
    """Its data folder and its database; an empty one is the file in the folder."""

    folder: Path
    database: str
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
        env = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
        env |= {"BERTH_DATA_DIR": str(self.folder), "BERTH_CLUSTER": self.cluster, "BERTH_ENGINE": "python", **more}
        env |= {"BERTH_DATABASE_URL": self.database} if self.database else {}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

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

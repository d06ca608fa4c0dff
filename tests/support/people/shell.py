"""Somebody's terminal, with the `berth` command in it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.services.forked_berth import forked_berth

ROOT = Path(__file__).parents[3]
BERTH = [sys.executable, "-m", "berth"]


@dataclass
class Shell:
    """Where somebody types `berth`: a home of their own, and the environment."""

    home: Path
    url: str = ""
    token: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "XDG_"))}
        said = {"BERTH_URL": self.url, "BERTH_TOKEN": self.token, "COLUMNS": "200"}
        own = {"HOME": str(self.home), "PYTHONPATH": str(ROOT / "client"), "NO_PROXY": "127.0.0.1"}
        return {**kept, **own, **{name: value for name, value in said.items() if value}, **self.more}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """`berth` with these words, running on."""
        return subprocess.Popen(
            [*BERTH, *words], cwd=self.home, env=self.environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def berth(self, *words: str, typed: str = "", code: int = 0) -> str:
        """What `berth` prints: its output where it shall succeed, else what it complains of."""
        status, out, errors = forked_berth().run(words, self.home, self.environment(), typed)
        assert status == code, f"exit {status}\n{out}\n{errors}"
        assert "Traceback" not in errors
        return errors if code else out

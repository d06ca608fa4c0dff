"""Stop notice: a file that tells a task why it is stopped, and by when it must have ended.

It lies in a folder of the agent's that the container sees read-only; BERTH_NOTICE_FILE names it. It appears, whole,
before SIGTERM is sent, and goes again when a stop that was announced is called off.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

NOTICE_VARIABLE = "BERTH_NOTICE_FILE"
NOTICE_NAME = "notice"
PEERS_NAME = "peers"
"""Beside it: the other tasks of an elastic role, an ``address:port`` a line; BERTH_PEERS names it."""
NOTICE_TARGET = "/run/berth"
"""Where a container sees its notice's folder."""


def notice_text(why: str, message: str, grace_s: int, term_ms: int) -> str:
    """JSON for a stop whose SIGTERM is sent at ``term_ms`` (unix ms)."""
    deadline = term_ms // 1000 + grace_s
    notice = {
        "reason": why,
        "message": message,
        "deadline": datetime.fromtimestamp(deadline, tz=UTC).isoformat().replace("+00:00", "Z"),
        "deadline_unix": deadline,
        "grace_seconds": grace_s,
    }
    return json.dumps(notice, indent=1) + "\n"


def notice_folder(folder: Path) -> None:
    """Makes the folder, which everybody may read and only the agent may write."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)


def notice_write(folder: Path, text: str, name: str = NOTICE_NAME) -> None:
    """Writes the file atomically, replacing an earlier one. Raises OSError."""
    notice_folder(folder)
    fresh = folder / f".{name}"
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(folder / name)


def notice_remove(folder: Path, name: str = NOTICE_NAME) -> None:
    """Removes the file, if it is there. Raises OSError."""
    (folder / name).unlink(missing_ok=True)

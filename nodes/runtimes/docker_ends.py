"""What an Engine that was started anew cannot know of containers that ended meanwhile."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import docker

READS_AGAIN_S = 30.0
"""An Engine that starts with many containers, on a machine that does much else, reads all their pipes again by then."""
UNKNOWN = 255
"""The exit status that Docker gives a container whose own it has lost (moby, ``daemon.restore``)."""
STATUS_LOST = "the container engine was started anew when it ended, and does not know its exit status"


def engine_began_s(client: docker.APIClient, age_s: float | None) -> float | None:
    """When an Engine that has run for so long began, by its own clock; None where its age is not known."""
    return None if age_s is None else _unix_s(client.info()["SystemTime"]) - age_s


def ended_unread(state: dict[str, Any], began_s: float) -> bool:
    """Whether the Engine that read the container's pipe was gone at its end."""
    return _unix_s(state["StartedAt"]) < began_s and _unix_s(state["FinishedAt"]) < began_s + READS_AGAIN_S


def status_lost(state: dict[str, Any], began_s: float) -> bool:
    """Whether the exit status is none of the program's: an Engine that is killed when it has taken the status from
    containerd and not yet written it down says 255 when it comes back, and that the container ended just then. Its
    program may have ended well. One that ends with 255 by itself in these seconds cannot be told from that."""
    return state["ExitCode"] == UNKNOWN and ended_unread(state, began_s) and _unix_s(state["FinishedAt"]) >= began_s


def _unix_s(text: str) -> float:
    """Of a container that never ended: long ago. Docker writes nine digits or fewer; six can be read."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()

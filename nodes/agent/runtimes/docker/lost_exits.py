"""What an Engine that was started anew cannot know of containers that ended meanwhile."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import docker

READS_AGAIN_S = 30.0
"""An Engine that starts with many containers, on a machine that does much else, reads all their pipes again by then."""
UNKNOWN = frozenset({0, 255})
"""The exit statuses that Docker gives a container whose own it has lost (moby, ``daemon.restore``): 255, and before
release 23 also 0 where containerd has forgotten the container as well as its task."""
EVENTS_KEPT = 256
"""Docker forgets older ones (moby, ``daemon/events``)."""
STATUS_LOST = "the container engine was started anew when it ended, and does not know its exit status"


def engine_began_s(client: docker.APIClient, age_s: float | None) -> float | None:
    """When an Engine that has run for so long began, by its own clock; None where its age is not known."""
    return None if age_s is None else _unix_s(client.info()["SystemTime"]) - age_s


def made_before(client: docker.APIClient, details: dict[str, Any], age_s: float | None) -> bool:
    """Whether a container is older than its Engine's process; also where that process cannot be seen."""
    began_s = engine_began_s(client, age_s)
    return began_s is None or _unix_s(details["Created"]) < began_s


def ended_unread(state: dict[str, Any], began_s: float) -> bool:
    """Whether the Engine that read the container's pipe was gone at its end."""
    return _unix_s(state["StartedAt"]) < began_s and _unix_s(state["FinishedAt"]) < began_s + READS_AGAIN_S


def status_lost(client: docker.APIClient, details: dict[str, Any], age_s: float | None) -> bool:
    """Whether the exit status is none of the program's: an Engine that is killed when it has taken the status from
    containerd and not yet written it down gives another when it comes back, and says that the container ended just
    then. Of an end that it has really seen it also tells in its events. ``age_s``: for how long it has run."""
    state = details["State"]
    if state["ExitCode"] not in UNKNOWN or age_s is None:
        return False
    now_s = _unix_s(client.info()["SystemTime"])
    began_s = now_s - age_s
    if not (ended_unread(state, began_s) and _unix_s(state["FinishedAt"]) >= began_s):
        return False
    until: Any = f"{now_s:.6f}"  # the Engine takes fractions of a second, of which its client knows nothing
    events = list(client.events(since=int(began_s), until=until, decode=True))
    if any(one["Actor"]["ID"] == details["Id"] and one["Action"] == "die" for one in events):
        return False
    return len(events) < EVENTS_KEPT or state["ExitCode"] != 0  # else most programs that end so have ended so


def _unix_s(text: str) -> float:
    """Of a container that never ended: long ago. Docker writes nine digits or fewer; six can be read."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()

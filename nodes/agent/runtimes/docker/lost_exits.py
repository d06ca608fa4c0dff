"""Exits lost in a restart of the Engine: what it cannot know of containers that ended meanwhile."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import docker

from nodes.protocol import wordings

READS_AGAIN_S = 30.0
"""Time within which a starting Engine with many containers, on a busy machine, reads all their pipes again."""
UNKNOWN = frozenset({0, 255})
"""Exit statuses that Docker gives a container whose own it has lost (moby, ``daemon.restore``): 255, and before release
23 also 0 where containerd has forgotten the container as well as its task."""
EVENTS_KEPT = 256
"""Events that Docker keeps (moby, ``daemon/events``)."""
STATUS_LOST = wordings.STATUS_LOST()


def engine_began_s(client: docker.APIClient, age_s: float | None) -> float | None:
    """When the Engine started, by its own clock; None where its age is not known."""
    return None if age_s is None else _unix_s(client.info()["SystemTime"]) - age_s


def made_before(client: docker.APIClient, details: dict[str, Any], age_s: float | None) -> bool:
    """Whether a container is older than its Engine's process; also true where that process cannot be seen."""
    began_s = engine_began_s(client, age_s)
    return began_s is None or _unix_s(details["Created"]) < began_s


def ended_unread(state: dict[str, Any], began_s: float) -> bool:
    """Whether the Engine that read the container's pipe was gone at its end."""
    return _unix_s(state["StartedAt"]) < began_s and _unix_s(state["FinishedAt"]) < began_s + READS_AGAIN_S


def status_lost(client: docker.APIClient, details: dict[str, Any], age_s: float | None) -> bool:
    """Whether the exit status is not the program's. An Engine killed after it took the status from containerd and
    before it wrote it down gives another when it comes back, and dates the end to that moment; an end that it really
    saw is also in its events. ``age_s``: how long it has run."""
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
    """Parses Docker's time; long ago for a container that never ended. Docker writes up to nine digits; six can be
    read."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()

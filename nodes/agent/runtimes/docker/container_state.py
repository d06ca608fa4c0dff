"""State of containers: from the Engine's API to the types that all runtimes share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from nodes.agent.runtimes.base import ContainerExit, RuntimeContainer, Status
from nodes.agent.runtimes.docker.lost_exits import STATUS_LOST, UNKNOWN
from nodes.protocol.names import LABEL

_STATUS = {"created": Status.CREATED, "exited": Status.ENDED, "dead": Status.ENDED, "removing": Status.ENDED}


def status_of(word: str) -> Status:
    """The status; paused and restarting containers count as running."""
    return _STATUS.get(word, Status.RUNNING)


def container_listed(item: dict[str, Any]) -> RuntimeContainer:
    """A container from the Engine's list, which has neither times nor exit."""
    labels = item["Labels"]
    return RuntimeContainer(
        attempt=labels.get(LABEL.ATTEMPT, ""),
        container=item["Id"],
        spec_hash=labels.get(LABEL.SPEC, ""),
        status=status_of(item["State"]),
        gpus=_gpus(labels),
    )


def container_inspected(details: dict[str, Any], *, status_lost: bool) -> RuntimeContainer:
    """A container as inspected. ``status_lost``: its exit status is the Engine's own and says nothing of the
    program."""
    state, labels = details["State"], details["Config"]["Labels"]
    status = status_of(state["Status"])
    ending = None
    if status is Status.ENDED:
        unsure = STATUS_LOST if state["ExitCode"] in UNKNOWN else ""
        ending = ContainerExit(code=state["ExitCode"], oom=state["OOMKilled"], error=state["Error"], unsure=unsure)
        if status_lost:
            ending = ContainerExit(code=None, oom=state["OOMKilled"], error=STATUS_LOST)
    return RuntimeContainer(
        attempt=labels.get(LABEL.ATTEMPT, ""),
        container=details["Id"],
        spec_hash=labels.get(LABEL.SPEC, ""),
        status=status,
        gpus=_gpus(labels),
        paused=bool(state["Paused"]),
        memory_mb=details["HostConfig"]["Memory"] >> 20,
        digest=_digest(details["Config"]["Image"]),
        started_ms=_unix_ms(state["StartedAt"]),
        ended_ms=_unix_ms(state["FinishedAt"]) if ending else None,
        ending=ending,
    )


def _gpus(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(uuid for uuid in labels.get(LABEL.GPUS, "").split(",") if uuid)


def _digest(reference: str) -> str | None:
    """The digest in the reference that the container was made from."""
    digest = reference.rpartition("@")[2]
    return digest if digest.startswith("sha256:") else None


def _unix_ms(text: str) -> int | None:
    """Docker's time; None for its year 1, which means never."""
    if text.startswith("0001-"):
        return None
    seconds, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.fromisoformat(f"{seconds}+00:00")
    return int(moment.timestamp()) * 1000 + int(f"{fraction:0<3}"[:3] or 0)

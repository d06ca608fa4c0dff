"""How running tasks are reached by SSH, for who may open a terminal in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from portal.accounts.keys import ssh_keys_of
from portal.job_file.model import JobSpec
from portal.job_file.plugins import ssh_keys
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.views.ports import LISTED
from portal.node_orders.selectors import SshWay, ssh_way


@dataclass(frozen=True, slots=True)
class SshShown:
    """The tasks by name. ``keyless``: there is a server and it lets nobody in; ``own``: the job is the reader's."""

    ways: list[tuple[str, SshWay]]
    keyless: bool
    own: bool


def ssh_shown(*, job: Job, runs: Iterable[tuple[str, TaskAttempt]], own: bool) -> SshShown | None:
    """Of these (task's name, its run) those that are reached by SSH, at most ``LISTED``; None where there are none."""
    ways = [(name, way) for name, run in runs if (way := ssh_way(run)) is not None][:LISTED]
    if not ways:
        return None
    spec = JobSpec.from_json(job.spec)
    given = any(ssh_keys(spec, role.name) for role in spec.roles)
    waits = not given and any(way.state != "none" for _, way in ways)
    return SshShown(ways, waits and not ssh_keys_of(user=job.user).exists(), own)

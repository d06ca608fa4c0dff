"""SSH access to tasks: which have it, with whose keys, and what nodes report of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from nodes.protocol.messages import ContainerReport, SshAccess
from nodes.protocol.wording import Sentence, heard
from nodes.protocol.wordings import NO_SERVER
from portal.accounts.keys import ssh_lines
from portal.common.public_keys import NoPublicKey, public_key_parse
from portal.job_file.model import JobSpec
from portal.job_file.plugins import ssh_keys
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.selectors.hidden import hidden_in
from portal.jobs.wordings import NO_SSH
from portal.node_orders.services.job_ssh import job_key, public_line

SSH_PORT = "ssh"
"""Label of its port, which every task has."""
SPEC_OF = ("spec", "secrets_sealed", "user__is_active")
MOST_BYTES = 16 * 1024
"""Bytes of keys repeated with each order: the rest is cut off after a whole key."""
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


def ssh_accesses(attempts: Iterable[UUID]) -> dict[UUID, SshAccess]:
    """Access to these task attempts: port, the keys in their owner's profile now and in the job's file (none if the
    account is disabled), and the job's own for its other tasks. Three queries, none without attempts."""
    ids = list(attempts)
    if not ids:
        return {}
    columns = ("pk", "ports", "task__role__name", "job_attempt__job", "job_attempt")
    rows = list(TaskAttempt.objects.filter(pk__in=ids).values_list(*columns))
    jobs = Job.objects.filter(pk__in={row[3] for row in rows}).select_related("user").only(*SPEC_OF)
    by_id = {job.pk: (_spec(job), job.user) for job in jobs}
    stored = ssh_lines(users={user.pk for _, user in by_id.values() if user.is_active})
    accesses = {}
    for key, ports, role, job, attempt in rows:
        spec, user = by_id[job]
        keys = _keys(ssh_keys(spec, role), stored.get(user.pk, [])) if user.is_active else ()
        among = (public_line(job_key(attempt)),) if spec.task_count > 1 and spec.job_ssh(role) else ()
        accesses[key] = SshAccess(port=ports[SSH_PORT][0], keys=(*among, *keys))
    return accesses


def _spec(job: Job) -> JobSpec:
    """With its secrets if keys may refer to one."""
    spec = JobSpec.from_json(job.spec)
    waits = any("<%" in line for role in spec.roles for line in ssh_keys(spec, role.name))
    return replace(spec, secrets=hidden_in(job)) if waits else spec


def _keys(given: Iterable[str], stored: Iterable[str]) -> tuple[str, ...]:
    kept, left = [], MOST_BYTES
    for line in dict.fromkeys([*_lines(given), *stored]):
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return tuple(kept)


def _lines(given: Iterable[str]) -> Iterator[str]:
    for text in given:
        try:
            yield public_key_parse(text).line
        except NoPublicKey:
            continue  # of a file accepted before keys were validated


def ssh_reported(row: TaskAttempt, report: ContainerReport) -> dict[str, Any]:
    """State of the task's SSH server; the container's claims count only if well-formed."""
    told, known = report.ssh, dict[str, Any](row.ssh)
    if not known or told is None:
        return known
    try:
        key = public_key_parse(told.host_key).line if _USER.fullmatch(told.user) else ""
    except NoPublicKey:
        key = ""
    if key:
        return {"state": "open", "user": told.user, "host_key": key}
    why = heard(told.message[:300], told.said) or NO_SERVER()
    return {"state": "none", "message": str(why), **({"said": why.stored()} if isinstance(why, Sentence) else {})}


def ssh_hint(row: TaskAttempt) -> str:
    """Event text for a task without SSH after all."""
    if row.ssh.get("state") != "none":
        return ""
    why = heard(row.ssh["message"], row.ssh.get("said"))
    return NO_SSH(task=f"{row.task.role.name}/{row.task.index}", node=row.node.name, why=why)

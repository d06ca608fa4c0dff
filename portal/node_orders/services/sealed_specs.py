"""Specs of task attempts, sealed for their nodes: made once and stored."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import encode, spec_digest
from portal.common.bulk import rows_update
from portal.common.prepared import Among, Prepared
from portal.common.sealing import SealBroken
from portal.files.models import KeptFolder
from portal.files.selectors import folder_of, job_folder_path
from portal.hardware.models import Node
from portal.jobs import wordings
from portal.jobs.models import Allocation, JobAttempt, JobEvent, TaskAttempt
from portal.jobs.services.transitions import job_event
from portal.node_orders.services.container_spec import (
    NEEDS_SPEC,
    RUN_COLUMNS,
    AttemptFacts,
    HeldGpu,
    Run,
    StorageGone,
    attempts_facts,
    container_spec,
)
from portal.node_orders.services.environment import LEFT_OUT

log = logging.getLogger(__name__)

AT_ONCE = 32 << 20
"""Bytes of specs written per statement. Each names all tasks of its job, so those of 2,000 tasks total a gigabyte: more
than PostgreSQL takes in one value, and than a process should hold."""

RUN_OF = (
    "number", "job__name", "job__run", "job__spec", "job__secrets_sealed", "job__vc__default_profile",
    *(f"job__user__{name}" for name in ("username", "uid", "gid", "extra_gids")),
    *(f"job__code__{name}" for name in ("sha256", "size", "unpacked", "entries")),
    *(f"job__kept_folder__{name}" for name in ("storage", "path")),
)  # fmt: skip
"""Columns of a job attempt for its specs; whole rows of job, user and virtual cluster are large."""


def specs_store(*, nodes: Mapping[int, Node], of: Collection[JobAttempt] | None = None) -> dict[int, str]:
    """Make the specs that tasks on these nodes (by id) still lack, of all or some attempts. A fixed number of queries,
    plus one for each ``AT_ONCE``.

    If one of a job attempt cannot be made, none of that attempt is kept, but the others are: returns why, in words, by
    attempt id.
    """
    # Made only once: its inputs (addresses, siblings' ports) may change while the container lives.
    runs = [Run(*row) for row in _LACKING(nodes=nodes)]
    if of is not None:
        keys = {one.pk for one in of}
        runs = [run for run in runs if run.job_attempt in keys]
    if not runs:
        return {}
    attempts = {one.pk: one for one in _RUNNING(attempts={run.job_attempt for run in runs})}
    facts, failed = attempts_facts([*attempts.values()])
    gpus = _gpus([run.id for run in runs])
    writing, long = _Writing(facts), dict[int, str]()
    for run in runs:
        if run.job_attempt in failed:
            continue
        node = nodes[run.node]
        try:
            spec = container_spec(facts[run.job_attempt], run, node, gpus[run.id])
            encoded = encode(spec)
        except DatabaseError:
            raise
        except Exception as error:  # one job's fault must not block others' orders
            failed[run.job_attempt] = error
        else:
            writing.add(run, node, encoded, failed)
            long |= {run.job_attempt: spec.env[LEFT_OUT]} if LEFT_OUT in spec.env else {}
    writing.write(failed)
    if torn := [run.id for run in runs if run.job_attempt in failed.keys() & writing.begun]:
        TaskAttempt.objects.filter(pk__in=torn).update(spec_hash="", spec_sealed="")
    for key in long.keys() - failed.keys():
        _left_out_tell(attempts[key], long[key])
    return {key: _told(attempts[key], error) for key, error in failed.items()}


def _lacking() -> QuerySet[TaskAttempt, Any]:
    there = TaskAttempt.objects.filter(Among("node", "nodes"), removed_at=None, phase__in=NEEDS_SPEC, spec_hash="")
    return there.values_list(*RUN_COLUMNS)


def _running() -> QuerySet[JobAttempt]:
    running = JobAttempt.objects.filter(Among("id", "attempts")).order_by()
    return running.select_related("job__user", "job__vc", "job__code", "job__kept_folder").only(*RUN_OF)


_LACKING = Prepared(_lacking)
_RUNNING = Prepared(_running)


class _Writing:
    """Buffers specs on their way to their rows. ``begun``: job attempts of which some are written."""

    def __init__(self, facts: Mapping[int, AttemptFacts]) -> None:
        self._facts, self._made, self._size = facts, list[tuple[Run, str, str]](), 0
        self.begun = set[int]()

    def add(self, run: Run, node: Node, encoded: bytes, failed: Container[int]) -> None:
        sealed = PortalKey.seal_for(node.public_key, encoded)
        self._made.append((run, spec_digest(encoded), sealed))
        self._size += len(sealed)
        if self._size >= AT_ONCE:
            self.write(failed)

    def write(self, failed: Container[int]) -> None:
        """Skips job attempts that have failed since."""
        kept = [one for one in self._made if one[0].job_attempt not in failed]
        self._made, self._size = [], 0
        self.begun |= {run.job_attempt for run, *_ in kept}
        _folders_store(self._facts[key] for key in {run.job_attempt for run, *_ in kept})
        # The first writer of a spec wins: what is sent is read again.
        new = [(run.id, digest, sealed) for run, digest, sealed in kept]
        rows_update(TaskAttempt, ("spec_hash", "spec_sealed"), new, only={"spec_hash": ""})


def _left_out_tell(attempt: JobAttempt, names: str) -> None:
    """Record once per job which variables its tasks do not get."""
    message = wordings.LEFT_OUT(names=names.split())
    if not JobEvent.objects.filter(job=attempt.job, code="hint", data=message.stored()).exists():
        job_event(job=attempt.job, code="hint", message=message, now=timezone.now(), job_attempt=attempt)


def _told(attempt: JobAttempt, error: Exception) -> str:
    if isinstance(error, SealBroken):
        log.error("Attempt %s of %s cannot be prepared: %s", attempt.number, attempt.job.label, error)
        return wordings.NO_SECRETS()
    if isinstance(error, StorageGone):
        return wordings.NO_STORAGE(storage=error.name)
    log.error("Attempt %s of %s cannot be prepared", attempt.number, attempt.job.label, exc_info=error)
    return wordings.NO_SPEC()


def _folders_store(given: Iterable[AttemptFacts]) -> None:
    """Store the new job folders' locations: recomputed from later settings, one could be another's. No query without
    new ones."""
    new = [
        KeptFolder(job=one.job, storage=one.job_storage, path=job_folder_path(storage=one.job_storage, job=one.job))
        for one in given
        if one.job_storage is not None and folder_of(one.job) is None
    ]
    KeptFolder.objects.bulk_create(new, ignore_conflicts=True)


def _gpus(attempts: Collection[UUID]) -> dict[UUID, list[HeldGpu]]:
    """GPUs of each of these task attempts, in index order."""
    held: dict[UUID, list[HeldGpu]] = defaultdict(list)
    for key, number, uuid in _HELD(attempts=attempts):
        held[key].append(HeldGpu(number, uuid))
    return held


_HELD = Prepared(
    lambda: (
        Allocation.objects.filter(Among("task_attempt", "attempts"))
        .order_by("leaf__index")
        .values_list("task_attempt", "leaf__index", "leaf__uuid")
        .distinct()
    )
)

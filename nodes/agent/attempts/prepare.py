"""Preparation of an attempt: checks, storages, code, image and container, before it can start.

Each step may be repeated, and the agent may die between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nodes.agent.attempts.attempt_state import AttemptState
from nodes.agent.attempts.context import RETRY_EVERY_S, AttemptContext
from nodes.agent.attempts.folder_lease import LeaseWatch, lease_watch
from nodes.agent.attempts.journal import Record
from nodes.agent.attempts.secrets import with_secrets
from nodes.agent.runtimes.base import AttemptFailed, RuntimeContainer
from nodes.agent.storage.background import run_cancellable
from nodes.agent.storage.code_cache import CodeUnavailable
from nodes.agent.storage.folders import checkpoint_location, mounts_prepare, steps_location
from nodes.agent.storage.workspace import workspace_make
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec, Progress, encode, spec_digest
from nodes.protocol.states import Cause, ContainerState


class Preparation:
    """Brings one attempt to a created container. All methods raise ``AttemptFailed``, and ``Cancelled`` once
    ``cancelled`` says that the attempt is not to run any more: a file server that dies holds up nobody who is
    stopped. ``code_address``: where the job's code can be fetched."""

    def __init__(
        self,
        context: AttemptContext,
        state: AttemptState,
        cancelled: Callable[[], bool],
        code_address: Callable[[], str | None],
    ) -> None:
        self._context, self._state = context, state
        self._cancelled, self._code_address = cancelled, code_address
        self._lease: LeaseWatch | None = None

    def fits(self, found: RuntimeContainer, spec: ContainerSpec, spec_hash: str) -> bool:
        """Whether a created container is the one that the spec describes; if so, adopts the spec's hash."""
        record = self._state.record
        if found.spec_hash != spec_hash:
            same = record.body == body_of(spec) and spec.digest in (None, record.digest)
            if not same:
                return False
        self._state.save(self._prepared(spec, spec_hash, record))
        return True

    def prepare(self, spec: ContainerSpec, spec_hash: str) -> float:
        """Creates the container. Seconds until the next try; 0 once the container is there. Raises also
        ``RuntimeUnavailable``."""
        context, state = self._context, self._state
        if wait := self._wait(spec):
            return wait
        state.move(ContainerState.PULLING)
        self.folders(spec)
        if not self._code_is_here(spec):
            return RETRY_EVERY_S
        image = context.runtime.image(spec, mirrors=context.mirrors(), progress=state.show, cancelled=self._cancelled)
        if spec.digest is not None and image.digest != spec.digest:
            message = wordings.IMAGE_HERE(digest=image.digest, other=spec.digest)
            raise AttemptFailed(Cause.IMAGE_MISMATCH, message)
        found = context.runtime.create(spec, spec_hash, image)
        if context.runtime.notice and not state.record.container:
            context.logs.note(spec.attempt, context.runtime.notice)
        state.progress = None
        record = replace(state.record, container=found.container, digest=image.digest, gpus=spec.gpus)
        state.save(self._prepared(spec, spec_hash, record))
        return 0.0

    def check(self, spec: ContainerSpec) -> None:
        """Checks that this server offers and allows what the spec asks for."""
        # Before the first look at any of them: one that does not answer would hold this thread up.
        away = next((mount for mount in spec.mounts if not self._context.storage_available(mount.root)), None)
        if away is not None:
            raise AttemptFailed(Cause.STORAGE_MISSING, wordings.NOT_OFFERED(name=away.storage))
        run_cancellable(partial(self._context.policy.check, spec), self._cancelled)

    def folders(self, spec: ContainerSpec) -> None:
        """Guards the spec's storages, checks their folders, and makes what is missing."""
        run_cancellable(partial(self._folders, spec), self._cancelled)

    def _folders(self, spec: ContainerSpec) -> None:
        for mount in spec.mounts:
            if not mount.read_only:
                self._context.guard_mount(mount)
        mounts_prepare(spec)

    def _wait(self, spec: ContainerSpec) -> float:
        """Seconds until the next look whether the container may be created; 0 when it may be. No two attempts write
        one job folder at once: the earlier one has to be silent for long enough."""
        self.check(spec)
        if self._context.disk_full():
            raise AttemptFailed(Cause.NO_SPACE, wordings.DISK_FULL())
        if self._lease is None:
            self._lease = lease_watch(spec, self._context.lease_still_s)
        remaining = self._remaining(self._lease) if self._lease else 0.0
        if remaining:
            self._state.show(Progress(code="lease", message=f"{spec.lease_after} still writes"))
        return min(remaining, 1.0)

    def _remaining(self, lease: LeaseWatch) -> float:
        return run_cancellable(lambda: lease.remaining(self._context.clock.monotonic()), self._cancelled)

    def _prepared(self, spec: ContainerSpec, spec_hash: str, record: Record) -> Record:
        """The record of a created container, with all that it must keep of the spec, which is never on disk."""
        runtime, checkpoint, steps = self._context.runtime, checkpoint_location(spec), steps_location(spec)
        return replace(
            with_secrets(self._context, record, spec),
            spec_hash=spec_hash,
            isolation=f"{runtime.isolation}, profile {spec.profile}" if runtime.profiles else runtime.isolation,
            body=body_of(spec),
            lease=spec.lease,
            lease_root=next((m.root for m in spec.mounts if spec.lease and spec.lease.startswith(m.source)), None),
            checkpoint=spec.checkpoint,
            checkpoint_root=checkpoint[0].root if checkpoint else None,
            steps=spec.steps,
            steps_file=spec.steps_file,
            steps_root=steps[0].root if steps else None,
            prepared_ms=record.prepared_ms or self._context.clock.now_ms(),
        ).forward(ContainerState.PREPARED)

    def _code_is_here(self, spec: ContainerSpec) -> bool:
        """Fetches and unpacks the job's code, once; False while the portal does not serve it."""
        if spec.code is None:
            return True
        folder = self._context.runtime.code_folder(spec)
        if folder.folder.exists():
            return True
        try:
            archive = self._context.code.open(
                spec.code, address=self._code_address, progress=self._state.show, cancelled=self._cancelled
            )
        except CodeUnavailable as unavailable:
            self._state.show(Progress(code="code_unavailable", message=str(unavailable)))
            return False
        with archive:
            workspace_make(archive, spec.code, folder)
        return True


def body_of(spec: ContainerSpec) -> str:
    """Hash of a spec without its image digest: what else a container was made from."""
    return spec_digest(encode(replace(spec, digest=None)))

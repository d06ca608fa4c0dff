"""Towards running: all that one task attempt needs on this node before its container can start.

Each step may be repeated, and the agent may die between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nodes.agent.attempts.context import World
from nodes.agent.attempts.folder_lease import LeaseWatch, lease_watch
from nodes.agent.attempts.journal import Record
from nodes.agent.attempts.log_secrets import hidden_noted
from nodes.agent.runtimes.base import Failed, Runtime
from nodes.agent.storage.code_cache import CodeAway
from nodes.agent.storage.file_worker import aside
from nodes.agent.storage.folders import checkpoint_place, mounts_prepare
from nodes.agent.storage.workspace import workspace_make
from nodes.protocol.messages import ContainerSpec, Progress, encode, spec_digest
from nodes.protocol.states import Cause


class Preparing:
    """Checks, storages, code, image, container. ``show`` takes what is waited for, ``unwanted`` says whether the
    attempt is to run no more, ``code_address`` where its code is to be had."""

    def __init__(
        self,
        world: World,
        show: Callable[[Progress], None],
        unwanted: Callable[[], bool],
        code_address: Callable[[], str | None],
    ) -> None:
        self._world = world
        self._show = show
        self._unwanted = unwanted
        self._code_address = code_address
        self._lease: LeaseWatch | None = None

    def check(self, spec: ContainerSpec) -> None:
        """That this server offers and allows what the spec wants. Raises Failed, Cancelled."""
        # Before the first look at any of them: one that does not answer would hold this thread up.
        away = next((mount for mount in spec.mounts if not self._world.answers(mount.root)), None)
        if away is not None:
            raise Failed(Cause.STORAGE_MISSING, f"storage {away.storage} is not offered here now")
        aside(partial(self._world.policy.check, spec), self._unwanted)

    def folders(self, spec: ContainerSpec) -> None:
        """Guards its storages, checks their folders, and makes what is missing. Raises Failed, and Cancelled when the
        attempt is unwanted meanwhile: a file server that dies now holds nobody up who is stopped."""
        aside(partial(self._folders, spec), self._unwanted)

    def _folders(self, spec: ContainerSpec) -> None:
        for mount in spec.mounts:
            if not mount.read_only:
                self._world.guard(mount)
        mounts_prepare(spec)

    def wait(self, spec: ContainerSpec) -> float:
        """Seconds until the next look whether it may be made; 0 when it may be. Raises Failed where it may not at all.
        No two attempts write one job folder at once: the one before it has to be silent for long enough."""
        self.check(spec)
        if self._world.full():
            raise Failed(Cause.NO_SPACE, "the disk for containers is full: this node takes nothing new")
        if self._lease is None:
            self._lease = lease_watch(spec, self._world.lease_still_s)
        remaining = self._remaining(self._lease) if self._lease else 0.0
        if remaining:
            self._show(Progress(code="lease", message=f"{spec.lease_after} still writes"))
        return min(remaining, 1.0)

    def _remaining(self, lease: LeaseWatch) -> float:
        return aside(lambda: lease.remaining(self._world.clock.monotonic()), self._unwanted)

    def made(self, spec: ContainerSpec, spec_hash: str, record: Record) -> Record | None:
        """The record with the container that was made; None when the portal does not give the code now. Raises Failed,
        RuntimeAway, and Cancelled when the attempt is unwanted meanwhile."""
        world = self._world
        self.folders(spec)
        if not self._code_is_here(spec):
            return None
        image = world.runtime.image(spec, mirrors=world.mirrors(), progress=self._show, cancelled=self._unwanted)
        if spec.digest is not None and image.digest != spec.digest:
            raise Failed(Cause.IMAGE_MISMATCH, f"the image here is {image.digest}, the other tasks run {spec.digest}")
        found = world.runtime.create(spec, spec_hash, image)
        if world.runtime.notice and not record.container:
            world.logs.note(spec.attempt, world.runtime.notice)
        return self.noted(
            spec,
            spec_hash,
            replace(record, container=found.container, digest=image.digest, gpus=spec.gpus),
        )

    def noted(self, spec: ContainerSpec, spec_hash: str, record: Record) -> Record:
        """The record of a container that is there, with all that it must know of the spec, which no disk keeps; also
        where an earlier try could not write it down."""
        checkpoint = checkpoint_place(spec)
        return replace(
            hidden_noted(self._world, record, spec),
            spec_hash=spec_hash,
            isolation=_isolation(self._world.runtime, spec),
            body=body_of(spec),
            lease=spec.lease,
            lease_root=next((m.root for m in spec.mounts if spec.lease and spec.lease.startswith(m.source)), None),
            checkpoint=spec.checkpoint,
            checkpoint_root=checkpoint[0].root if checkpoint else None,
            prepared_ms=record.prepared_ms or self._world.clock.now_ms(),
        )

    def _code_is_here(self, spec: ContainerSpec) -> bool:
        """Fetches and unpacks the code that comes with the job, once; False when the portal does not give it now."""
        if spec.code is None:
            return True
        place = self._world.runtime.code_place(spec)
        if place.folder.exists():
            return True
        try:
            archive = self._world.code.open(
                spec.code, address=self._code_address, progress=self._show, cancelled=self._unwanted
            )
        except CodeAway as away:
            self._show(Progress(code="code", message=away.message))
            return False
        with archive:
            workspace_make(archive, spec.code, place)
        return True


def _isolation(runtime: Runtime, spec: ContainerSpec) -> str:
    return f"{runtime.isolation}, profile {spec.profile}" if runtime.profiles else runtime.isolation


def body_of(spec: ContainerSpec) -> str:
    """Names a spec without its image digest: what a container was made from besides."""
    return spec_digest(encode(replace(spec, digest=None)))

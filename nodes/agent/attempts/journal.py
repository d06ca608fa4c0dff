"""The journal: one small file per task attempt on the agent's disk, without secrets in the clear.

A restarted agent reads them, compares them with the runtime and goes on; see ``docs/decisions/agent-state.md``. A
removed attempt leaves a tombstone for an hour, so that a late message does not bring it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import structlog

from nodes.agent.atomic_file import file_replace
from nodes.agent.attempts.park_record import Parking, Step
from nodes.agent.logs.segments import LOST
from nodes.agent.write_error import NO_ROOM, cannot_write
from nodes.protocol import wordings
from nodes.protocol.decoding import decoded
from nodes.protocol.messages import ContainerReport, Exit, SshServer
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason, moves_forward
from nodes.protocol.wording import heard, message_split

TOMBSTONE_MS = 3_600_000
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """A requested stop, recorded before the first signal, so that the end is known to be ours. ``asked_ms`` is unix
    time, ``term_at`` and ``kill_at`` are this machine's monotonic seconds."""

    reason: StopReason | None  # None: the node's own
    message: str
    grace_s: int
    asked_ms: int
    term_at: float | None = None
    kill_at: float | None = None
    cause: Cause = Cause.STOPPED
    said: dict[str, Any] = field(default_factory=dict)  # the message as data

    def __post_init__(self) -> None:
        message_split(self)

    @property
    def why(self) -> str:
        """The reason in one word, for programs."""
        return str((self.reason or self.cause).value)

    @property
    def words(self) -> str:
        """The reason for people."""
        return heard(self.message, self.said) or wordings.STOPPED(reason=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The saved state of one task attempt. ``body`` hashes its spec without the image's digest."""

    attempt: str
    spec_hash: str
    phase: Phase
    state: ContainerState = ContainerState.ACCEPTED
    body: str = ""
    container: str = ""
    digest: str | None = None
    isolation: str = ""
    gpus: tuple[str, ...] = ()
    hidden: str | None = None  # what its log hides, sealed to the node's own key; None: not known
    gpu_faults: tuple[str, ...] = ()  # what was wrong with them when it started
    lease: str | None = None
    lease_root: str | None = None
    checkpoint: str | None = None
    checkpoint_root: str | None = None
    checkpoint_ms: int | None = None
    steps: str = ""
    steps_file: str | None = None
    steps_root: str | None = None
    prepared_ms: int | None = None
    started_ms: int | None = None
    boot: str = ""  # the machine's start in which its container was seen to run
    ended_ms: int | None = None
    stopping: Stopping | None = None
    exit: Exit | None = None
    layer_warned_ms: int | None = None  # when the task was warned of its layer
    ssh: SshServer | None = None
    parking: Parking = Parking()
    removed_ms: int | None = None

    def forward(self, state: ContainerState) -> Record:
        """The record in ``state``, unless it has reached that already."""
        return replace(self, state=state) if moves_forward(self.state, state) else self

    def report(self, generation: int) -> ContainerReport:
        """The report from the record alone; ``generation``: of the newest list of orders taken in before."""
        return ContainerReport(
            attempt=self.attempt,
            state=self.state,
            spec_hash=self.spec_hash,
            generation=generation,
            digest=self.digest,
            isolation=self.isolation,
            container=self.container,
            prepared_ms=self.prepared_ms,
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
            exit=self.exit,
            checkpoint_ms=self.checkpoint_ms,
            gpus=self.gpus_held,
            gpu=self.parking.state,
            turn=self.parking.turn,
            parked_mb=self.parking.used_mb if self.parking.step is Step.PARKED else 0,
            fault=self.parking.fault,
            ssh=self.ssh,
            folder=str(Path(self.lease).parent.parent) if self.lease else "",
        )

    @property
    def gpus_held(self) -> tuple[str, ...]:
        """Its GPUs, unless it is parked."""
        return () if self.parking.step is Step.PARKED else self.gpus

    @property
    def is_awaited(self) -> bool:
        """Whether the portal waits for this state: a gang's start for PREPARED, everybody for an end."""
        gang = self.state is ContainerState.PREPARED and self.phase is Phase.PREPARE
        return gang or self.state in (ContainerState.RUNNING, ContainerState.TERMINATED)


def attempt_is_safe(attempt: str) -> bool:
    """Whether an id may be part of a file's and a container's name."""
    return _SAFE_ID.fullmatch(attempt) is not None


class Journal:
    """Record files in one folder. Each write replaces its file atomically and is on disk when it returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logged: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, record: Record) -> None:
        file_replace(self._path(record.attempt), msgspec.json.encode(record))

    def read(self, attempt: str) -> Record | None:
        """The record; None where there is none that can be decoded. Raises OSError when it cannot be read now."""
        path = self._path(attempt)
        try:
            return decoded(path.read_bytes(), Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno not in LOST:
                raise
            if attempt not in self._logged:
                self._logged.add(attempt)
                log.error("a record cannot be read", path=str(path), reason=str(error))
            return None

    def has(self, attempt: str) -> bool:
        """Whether there is a record, also one that cannot be read."""
        try:
            self._path(attempt).lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in LOST:
                raise
        return True

    def records(self) -> Iterator[Record]:
        """All records, tombstones included; unreadable files are skipped."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                record = self.read(path.stem)
            except OSError as error:
                log.error("a record cannot be read", path=str(path), reason=str(error))
                continue
            if record is not None:
                yield record

    def forget_old(self, now_ms: int) -> None:
        """Deletes tombstones older than an hour."""
        for record in self.records():
            if record.removed_ms is not None and abs(now_ms - record.removed_ms) > TOMBSTONE_MS:
                self._path(record.attempt).unlink(missing_ok=True)

    def _path(self, attempt: str) -> Path:
        return self._folder / f"{attempt}.json"


def boot_next(path: Path, now_ms: int) -> int:
    """A number that grows with every start of the agent, also when the clock was set back.

    A full disk keeps no agent from restarting: its containers run on and need watching. The number is then the clock's
    alone, and not saved. Raises OSError.
    """
    try:
        last = int(path.read_text())
    except (FileNotFoundError, ValueError):
        last = 0
    boot = max(last + 1, now_ms)
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(str(boot))
        fresh.replace(path)
    except OSError as error:
        if error.errno not in NO_ROOM or not 0 < last < now_ms:
            raise
        log.warning("the number of this start is not kept", reason=cannot_write(error, path))
    return boot

"""Files by which a running task reports: checkpoint, lease and steps, on storages whose server may die at any time."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from functools import partial

import structlog

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.journal import Record
from nodes.agent.steps import StepClock
from nodes.agent.storage.background import BackgroundCall
from nodes.agent.storage.folders import file_changed_ms, file_touch, head_read
from nodes.protocol.messages import Steps
from nodes.protocol.states import StepFault
from nodes.protocol.steps import HIGHEST_STEP

log = structlog.get_logger(__name__)


LONGEST_STEPS = 64
AHEAD_MS = 60_000
"""How far a program's clock may be ahead of the agent's, with which it shares the node's."""
_STEP = re.compile(rb"\s*(\d{1,16})\s+(\d{1,16})\s*")


class TaskFiles:
    """Checkpoint file, lease and steps of one attempt. Nothing here waits for a file server longer than a moment."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self._checkpoint: BackgroundCall[int | None] | None = None
        self._lease: BackgroundCall[None] | None = None
        self._steps: BackgroundCall[Steps | None] | None = None

    def checkpoint_ms(self, record: Record) -> int | None:
        """When the checkpoint file last changed, as far as known: a file server that does not answer is not asked, nor
        for an attempt that has not begun or is over."""
        root, path = record.checkpoint_root, record.checkpoint
        if root is None or path is None or not self._readable(record, root):
            return record.checkpoint_ms
        if self._checkpoint is None:
            self._checkpoint = BackgroundCall(root, partial(file_changed_ms, root, path), record.checkpoint_ms)
        return self._context.background.run(self._checkpoint)

    def steps(self, record: Record) -> Steps | None:
        """What the file of steps has told so far; None where there is none."""
        root, path = record.steps_root, record.steps_file
        if root is None or path is None or not self._readable(record, root):
            return self._steps.last if self._steps else None
        if self._steps is None:
            self._steps = BackgroundCall(root, StepsFile(root, path, self._context.clock.now_ms).read, None)
        return self._context.background.run(self._steps)

    def _readable(self, record: Record, root: str) -> bool:
        return record.started_ms is not None and not record.exit and self._context.storage_available(root)

    def lease_touch(self, record: Record) -> None:
        """Touches the lease for a frozen container, which cannot."""
        root, path = record.lease_root, record.lease
        if not root or not path or not self._context.storage_available(root):
            return
        if self._lease is None:
            self._lease = BackgroundCall(root, partial(_touch, root, path), None)
        self._context.background.run(self._lease)


def _touch(root: str, path: str) -> None:
    try:
        file_touch(root, path)
    except OSError as error:
        log.warning("the lease of a frozen container cannot be touched", path=path, error=str(error))


class StepsFile:
    """The file "<number> <unix ms>" that a task rewrites at each step. It is the task's: nothing in it is trusted."""

    def __init__(self, root: str, path: str, now_ms: Callable[[], int]) -> None:
        self._root, self._path, self._now_ms = root, path, now_ms
        self._clock = StepClock()

    def read(self) -> Steps | None:
        """What it has told so far, or what is wrong with it."""
        return self._clock.read(self._look())

    def _look(self) -> StepFault | None:
        try:
            text = head_read(self._root, self._path, LONGEST_STEPS + 1)
        except OSError as error:
            return {errno.ELOOP: StepFault.LINK, errno.EINVAL: StepFault.NO_FILE}.get(error.errno or 0)
        if len(text) > LONGEST_STEPS:
            return StepFault.LONG
        found = _STEP.fullmatch(text)
        if found is None:
            return StepFault.TEXT if text.strip() else None  # empty: it is being rewritten
        step, at_ms = int(found[1]), int(found[2])
        if step > HIGHEST_STEP:
            return StepFault.NUMBER
        if at_ms > self._now_ms() + AHEAD_MS:
            return StepFault.FUTURE
        self._clock.seen(step, at_ms)
        return None

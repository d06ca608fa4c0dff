"""Files by which a running task reports: checkpoint and lease, on storages whose server may die at any time."""

from __future__ import annotations

from functools import partial

import structlog

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.journal import Record
from nodes.agent.storage.background import BackgroundCall
from nodes.agent.storage.folders import file_changed_ms, file_touch

log = structlog.get_logger(__name__)


class TaskFiles:
    """Checkpoint file and lease of one attempt. Nothing here waits for a file server longer than a moment."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self._checkpoint: BackgroundCall[int | None] | None = None
        self._lease: BackgroundCall[None] | None = None

    def checkpoint_ms(self, record: Record) -> int | None:
        """When the checkpoint file last changed, as far as known: a file server that does not answer is not asked, nor
        for an attempt that has not begun or is over."""
        root, path = record.checkpoint_root, record.checkpoint
        if (
            root is None
            or path is None
            or record.started_ms is None
            or record.exit
            or not self._context.storage_available(root)
        ):
            return record.checkpoint_ms
        if self._checkpoint is None:
            self._checkpoint = BackgroundCall(root, partial(file_changed_ms, root, path), record.checkpoint_ms)
        return self._context.background.run(self._checkpoint)

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

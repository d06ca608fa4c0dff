"""Orphaned spools: their attempt's record was lost, or the agent died between two steps of a removal."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import structlog

KEPT_S = 7 * 86_400
"""How long after its last line an unknown log is kept: a portal restored from a backup may still ask for it."""

logger = structlog.get_logger(__name__)


def orphans_delete(folder: Path, *, known: Collection[str], removed: Collection[str], now_s: float) -> None:
    """Deletes the spools below ``folder`` of ``removed`` attempts, and old ones of attempts that are not ``known``;
    ``now_s``: unix seconds."""
    for spool in folder.glob("*/"):
        if spool.name in known:
            continue
        if spool.name in removed or now_s - _changed_s(spool) > KEPT_S:
            logger.info("orphan_spool_deleted", attempt=spool.name)
            shutil.rmtree(spool, ignore_errors=True)


def _changed_s(spool: Path) -> float:
    """When anything of it was last written, unix seconds."""
    return max(path.stat().st_mtime for path in (spool, *spool.iterdir()))

"""When a task last used each image of the node: one small file, so that a restarted agent knows it still."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)


class ImageUses:
    """By the image's id, in unix ms. One that is seen for the first time counts as used then: of what was there before
    the agent nobody knows. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._last = _read(path)

    def last(self, image: str) -> int:
        """0: never heard of."""
        return self._last.get(image, 0)

    def note(self, images: Iterable[str], now_ms: int) -> None:
        """A task uses these now."""
        with self._lock:
            self._write(self._last | dict.fromkeys(images, now_ms))

    def keep(self, there: Iterable[str], now_ms: int) -> None:
        """These are on the node, and no others."""
        with self._lock:
            self._write({image: self._last.get(image, now_ms) for image in there})

    def _write(self, last: dict[str, int]) -> None:
        if last == self._last:
            return
        self._last = last
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(last))
            fresh.replace(self._path)
        except OSError as error:  # a full disk is just when it is needed: memory has it
            log.warning("image uses not kept", error=str(error))


def _read(path: Path) -> dict[str, int]:
    try:
        return {str(image): int(at) for image, at in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}

"""What the agent remembers of the node's images: when a task last used each, and which were had by a login only. One
small file, so that a restarted agent knows it still."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """``used``: unix ms by the image's id; ``private``: ids."""

    used: dict[str, int] = field(default_factory=dict)
    private: frozenset[str] = frozenset()


class ImageUses:
    """By the image's id. One that is seen for the first time counts as used then: of what was there before the agent
    nobody knows. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known = _read(path)

    def last(self, image: str) -> int:
        """When a task used it, unix ms; 0: never heard of."""
        return self._known.used.get(image, 0)

    def is_private(self, image: str) -> bool:
        """Whether its registry gave it to a login and to nobody else."""
        return image in self._known.private

    def note(self, images: Iterable[str], now_ms: int) -> None:
        """A task uses these now."""
        with self._lock:
            self._write(replace(self._known, used=self._known.used | dict.fromkeys(images, now_ms)))

    def note_private(self, image: str) -> None:
        """Its registry gives it to a login only."""
        with self._lock:
            self._write(replace(self._known, private=self._known.private | {image}))

    def keep(self, there: Iterable[str], now_ms: int) -> None:
        """These are on the node, and no others."""
        with self._lock:
            used = {image: self._known.used.get(image, now_ms) for image in there}
            self._write(_Known(used, self._known.private & used.keys()))

    def _write(self, known: _Known) -> None:
        if known == self._known:
            return
        self._known = known
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(known))
            fresh.replace(self._path)
        except OSError as error:  # a full disk is just when it is needed: memory has it
            log.warning("what is known of images is not kept", error=str(error))


def _read(path: Path) -> _Known:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Known)
    except (OSError, msgspec.MsgspecError):
        return _Known()

"""Memory of the node's images: when a task last used each, which came by a login only, and which a registry has. One
small file, so that a restarted agent still knows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import structlog

from nodes.agent.atomic_file import file_replace
from nodes.agent.write_error import cannot_write
from nodes.protocol.decoding import decoded

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """``used``: unix ms by image id; ``private``, ``pulled``: ids; ``lost``: the list of private images could not be
    read."""

    used: dict[str, int] = field(default_factory=dict)
    private: frozenset[str] = frozenset()
    pulled: frozenset[str] = frozenset()
    lost: bool = False


class ImageUses:
    """Uses of images, by image id. An image seen for the first time counts as used then: nothing is known of the time
    before the agent. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known = _read(path)
        self._since: set[str] = set()
        self._asked: set[tuple[str, str]] = set()
        self._unwritten = False

    def last(self, image: str) -> int:
        """When a task last used it, unix ms; 0: never heard of."""
        return self._known.used.get(image, 0)

    def is_private(self, image: str, *, has_digest: bool) -> bool:
        """Whether its registry gave it to a login and to nobody else. Where that was lost, every image that may have
        come from a registry (``has_digest``) counts as private."""
        known = self._known
        return image in known.private or (known.lost and has_digest)

    def is_pulled(self, image: str) -> bool:
        """Whether this agent pulled it, or a registry confirmed that it has it."""
        return image in self._known.pulled

    def ask_once(self, image: str, name: str) -> bool:
        """True the first time in the agent's life: a registry's answer is waited for once."""
        with self._lock:
            first = (image, name) not in self._asked
            self._asked.add((image, name))
            return first

    def note(self, images: Iterable[str], now_ms: int) -> None:
        """Notes that a task uses these now."""
        with self._lock:
            noted = dict.fromkeys(images, now_ms)
            self._since |= noted.keys()
            self._write(replace(self._known, used=self._known.used | noted))

    def note_private(self, image: str) -> None:
        """Notes that its registry gives it to a login only."""
        with self._lock:
            self._since.add(image)
            self._write(replace(self._known, private=self._known.private | {image}))

    def note_pulled(self, image: str) -> None:
        """Notes that a registry has it."""
        with self._lock:
            self._since.add(image)
            self._write(replace(self._known, pulled=self._known.pulled | {image}))

    def listing(self) -> None:
        """Notes that the images are about to be listed: what is noted from now on may not be in that list."""
        with self._lock:
            self._since.clear()

    def keep(self, there: Mapping[str, bool], now_ms: int) -> None:
        """Forgets images that are gone: these, by id and whether it has a digest, were there when they were listed."""
        with self._lock:
            known, kept = self._known, there.keys() | self._since
            used = {image: known.used.get(image, now_ms) for image in kept}
            unsure = {image for image, has_digest in there.items() if has_digest and known.lost}
            self._write(_Known(used, (known.private & kept) | unsure, known.pulled & kept))

    def _write(self, known: _Known) -> None:
        """Writes to disk before it returns: losing a mark in a power cut would be noticed by nobody."""
        if known == self._known and not self._unwritten:
            return
        self._known = known
        try:
            file_replace(self._path, msgspec.json.encode(known))
            self._unwritten = False
        except OSError as error:  # a full disk is just when it is needed: memory has it, and it is tried again
            if not self._unwritten:
                log.warning("what is known of images is not kept", reason=cannot_write(error, self._path))
            self._unwritten = True


def _read(path: Path) -> _Known:
    try:
        return decoded(path.read_bytes(), _Known)
    except FileNotFoundError:
        return _Known()
    except (OSError, ValueError) as error:  # given to too many, an image cannot be taken back
        log.error(
            "which images are private cannot be read: each that has a digest counts so", path=str(path), why=str(error)
        )
        return _Known(lost=True)

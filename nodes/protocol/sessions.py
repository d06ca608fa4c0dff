"""Sessions: bytes both ways between the portal and one node, for a shell in a task and for the files of a job folder.

The portal requests one by a signed ``SessionRequest`` with a fresh secret that is sealed to the node's key. Both sides
then send frames under that secret (XSalsa20-Poly1305), numbered on each side, in one Redis stream per direction; an
entry's id is ``<number>-0``. So nobody else can read, add, omit, repeat or reorder anything.
"""

from __future__ import annotations

import base64
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from nodes.protocol.envelope import EnvelopeForged, NodeKey, PortalKey
from nodes.protocol.messages import Mount

CHUNK = 64 * 1024
"""Most bytes in one frame."""
WINDOW = 256 * 1024
"""Most bytes that a side may have sent and the other not yet taken."""
REQUESTS_KEPT = 256
"""Most requests in a node's stream."""
STREAM_TTL_S = 120
"""Time after which a session's stream expires when nobody adds to it."""
_TAKEN = struct.Struct(">Q")
_SIZE = struct.Struct(">HH")
_NONCE = struct.Struct(">B15xQ")


class FrameKind(IntEnum):
    """What a frame carries."""

    DATA = 1  # bytes: what is typed goes down; output, or a file's content, goes up
    ERRORS = 2  # bytes of standard error
    TAKEN = 3  # how many bytes of DATA and ERRORS have been taken so far
    RESIZE = 4  # the terminal has another size
    FINISH = 5  # no more DATA comes
    ANSWER = 6  # the node's first frame: ``SessionAnswer``
    END = 7  # the last frame: ``SessionEnd``
    ALIVE = 8  # nothing, said every few seconds


class SessionFault(StrEnum):
    """Why a session ended, or never began, for programs."""

    REFUSED = "refused"  # the node's policy forbids it
    BUSY = "busy"  # too many are open
    NOT_RUNNING = "not_running"  # the task does not run here
    MISSING = "missing"  # there is no such file or folder
    UNFIT = "unfit"  # it is neither a plain file nor a folder
    AWAY = "away"  # a part of the node (Engine, storage) does not answer
    BROKEN = "broken"  # the other side does not answer, or says what it must not


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRequest:
    """A program in a running task. ``command`` empty: its shell; ``tty``: on a terminal of this size and type."""

    attempt: str
    command: tuple[str, ...] = ()
    tty: bool = True
    rows: int = 24
    columns: int = 80
    term: str = "xterm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """Names in a folder, at most ``limit`` behind the name ``after``. ``path`` is below the mount's source."""

    mount: Mount
    path: bytes = b""
    after: bytes = b""
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A file's bytes from ``offset`` on, ``length`` of them (None: to its end), or a folder as a tar archive."""

    mount: Mount
    path: bytes
    offset: int = 0
    length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest:
    """A job's folder, the mount's source, to be deleted for good; repeated until it is. The answer's kind is ``going``
    or ``gone``. ``unwritten_s``: how long its leases must not have been written, by the files' times and the node's
    clock, whatever the portal takes for the job's end."""

    mount: Mount
    unwritten_s: int


PROOFS = ".berth-proofs"
"""Folder in a storage into which agents write values for ``ProofRequest``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """A value to be written into the file ``name`` of the folder ``PROOFS`` in a storage, which is the mount's source.
    Another server that reads it there sees the same storage. The answer's kind is ``written``. 32 and 64 hexadecimal
    digits."""

    mount: Mount
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A request for exactly one of ``shell``, ``listing``, ``reading``, ``deleting`` and ``proving``.

    ``boot`` is that of the agent that shall answer: one started since then refuses, since it does not know what its
    predecessor has answered. ``silence_s``: after this long without a frame a side takes the other for gone.
    """

    session: str
    boot: int
    secret: str
    silence_s: int
    shell: ShellRequest | None = None
    listing: ListRequest | None = None
    reading: ReadRequest | None = None
    deleting: DeleteRequest | None = None
    proving: ProofRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAnswer:
    """The node's first answer. Of files: what is at the path, its size in bytes, and when it changed (unix ms)."""

    kind: str = ""
    size: int = 0
    changed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """The end of a session. ``fault`` is empty where all went well; ``code`` is a program's exit status, 128 + signal
    for a killed one."""

    code: int | None = None
    fault: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A name in a folder. ``kind``: file, folder, link or other; ``size`` in bytes; ``changed_ms`` unix ms."""

    name: bytes
    kind: str
    size: int
    changed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """Names in byte order; ``more``: there are others behind the last one."""

    entries: tuple[FileEntry, ...]
    more: bool


class SessionBroken(Exception):
    """The other side's frames cannot be what it sent: forged, lost, or more than it may send."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, decrypted."""

    kind: FrameKind
    payload: bytes

    @property
    def size(self) -> tuple[int, int]:
        """(rows, columns) of RESIZE. Raises SessionBroken."""
        if len(self.payload) != _SIZE.size:
            raise SessionBroken("a size that is none")
        rows, columns = _SIZE.unpack(self.payload)
        return rows, columns


def size_encode(rows: int, columns: int) -> bytes:
    """The payload of RESIZE."""
    return _SIZE.pack(min(max(rows, 1), 0xFFFF), min(max(columns, 1), 0xFFFF))


class SessionSide:
    """One side of a session: seals and opens its frames and counts their bytes. Knows no clock and no Redis."""

    def __init__(self, secret: bytes, *, node: bool) -> None:
        self._box = SecretBox(secret)
        self._mine, self._theirs = (2, 1) if node else (1, 2)
        self._sent_frames = self._opened_frames = 0
        self._sent = self._acknowledged = self._received = self._taken = 0

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        return WINDOW - (self._sent - self._acknowledged)

    @property
    def acknowledged(self) -> int:
        """Bytes of all sent that the other side has taken."""
        return self._acknowledged

    def seal(self, kind: FrameKind, payload: bytes = b"") -> tuple[str, bytes]:
        """(entry id, sealed frame); frames must be added to the stream in this order."""
        if kind in _COUNTED:
            self._sent += len(payload)
        self._sent_frames += 1
        nonce = _NONCE.pack(self._mine, self._sent_frames)
        return f"{self._sent_frames}-0", self._box.encrypt(bytes((kind,)) + payload, nonce).ciphertext

    def take(self, size: int) -> tuple[str, bytes]:
        """The frame that acknowledges ``size`` more bytes."""
        self._taken += size
        return self.seal(FrameKind.TAKEN, _TAKEN.pack(self._taken))

    def open(self, entry_id: bytes, sealed: bytes) -> Frame:
        """The next frame of the other side. Raises SessionBroken."""
        self._opened_frames += 1
        if entry_id != f"{self._opened_frames}-0".encode():
            raise SessionBroken("a frame is missing")
        try:
            plain = self._box.decrypt(sealed, _NONCE.pack(self._theirs, self._opened_frames))
            frame = Frame(FrameKind(plain[0]), plain[1:])
        except (CryptoError, ValueError, IndexError) as error:
            raise SessionBroken("a frame that the other side has not sent") from error
        self._count(frame)
        return frame

    def _count(self, frame: Frame) -> None:
        if frame.kind in _COUNTED:
            self._received += len(frame.payload)
            if self._received - self._taken > WINDOW:
                raise SessionBroken("more bytes than may be under way")
        elif frame.kind is FrameKind.TAKEN:
            if len(frame.payload) != _TAKEN.size:
                raise SessionBroken("a count that is none")
            (taken,) = _TAKEN.unpack(frame.payload)
            if not self._acknowledged <= taken <= self._sent:
                raise SessionBroken("more bytes taken than were sent")
            self._acknowledged = taken


_COUNTED = frozenset({FrameKind.DATA, FrameKind.ERRORS})


def secret_make(node_public: str) -> tuple[bytes, str]:
    """(a fresh secret, the same sealed to the node's key)."""
    secret = secrets.token_bytes(SecretBox.KEY_SIZE)
    return secret, PortalKey.seal_for(node_public, base64.b64encode(secret))


def secret_open(key: NodeKey, sealed: str) -> bytes:
    """The secret of a request. Raises EnvelopeForged."""
    try:
        secret = base64.b64decode(key.unseal(sealed), validate=True)
    except ValueError as error:
        raise EnvelopeForged("the session's secret is none") from error
    if len(secret) != SecretBox.KEY_SIZE:
        raise EnvelopeForged("the session's secret is none")
    return secret

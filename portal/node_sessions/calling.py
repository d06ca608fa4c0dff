"""Asking a node for a session: what the blocking and the awaiting callers have in common."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext

from nodes.protocol.envelope import Envelope, envelope_seal
from nodes.protocol.messages import encode
from nodes.protocol.names import session_requests, session_streams
from nodes.protocol.sessions import (
    REQUESTS_KEPT,
    STREAM_TTL_S,
    DeleteRequest,
    Frame,
    FrameKind,
    ListRequest,
    ProofRequest,
    ReadRequest,
    SessionEnd,
    SessionFault,
    SessionRequest,
    SessionSide,
    ShellRequest,
    secret_make,
)
from portal.hardware.models import Node

EXPIRES_S = 10
ANSWER_WITHIN_S = 5.0
SILENCE_S = 10.0
"""After so long without a frame the node is taken for gone; it says every two seconds that it lives."""
TOGETHER_S = 8.0
"""So long one node may take of a round in which many are asked one after another: it can say that it lives for ever."""
WORDS = 400
"""So many characters of what a node says of a failure are taken."""
FRAMES_AT_ONCE = 64
BLOCK_MS = 500


class SessionFailed(Exception):
    """The session ended, or never began. ``message`` is a sentence for people."""

    def __init__(self, fault: SessionFault, message: str) -> None:
        super().__init__(message)
        self.fault, self.message = fault, message


@dataclass(frozen=True, slots=True)
class Called:
    """A session that is asked for: the portal's side of it, and where its frames go."""

    node: str
    side: SessionSide
    requests: str
    request: str
    down: str
    up: str

    def ask(self, pipe: Any) -> None:
        """Adds the request to a pipeline."""
        pipe.xadd(self.requests, {"request": self.request}, maxlen=REQUESTS_KEPT)
        pipe.expire(self.requests, STREAM_TTL_S)

    def add(self, pipe: Any, sealed: tuple[str, bytes]) -> None:
        """Adds a frame to a pipeline; frames must be sent in the order in which they were sealed."""
        entry_id, data = sealed
        pipe.xadd(self.down, {"frame": data}, id=entry_id)
        pipe.expire(self.down, STREAM_TTL_S)

    def gone(self) -> SessionFailed:
        """The node says nothing."""
        return SessionFailed(
            SessionFault.BROKEN, gettext("The agent of %(node)s does not answer.") % {"node": self.node}
        )


def session_call(
    *,
    node: Node,
    silence_s: int,
    shell: ShellRequest | None = None,
    listing: ListRequest | None = None,
    reading: ReadRequest | None = None,
    deleting: DeleteRequest | None = None,
    proving: ProofRequest | None = None,
) -> Called:
    """A request to one node for a shell, a list, a file, a deletion or a proof. Nothing is sent yet."""
    secret, sealed = secret_make(node.public_key)
    session = str(uuid.uuid4())
    request = SessionRequest(
        session=session, boot=node.boot, secret=sealed, silence_s=silence_s,
        shell=shell, listing=listing, reading=reading, deleting=deleting, proving=proving,
    )  # fmt: skip
    expires = int(time.time() * 1000) + EXPIRES_S * 1000
    envelope = Envelope("portal", node.name, "session", expires, encode(request).decode())
    down, up = session_streams(node.name, session)
    return Called(
        node=node.name,
        side=SessionSide(secret, node=False),
        requests=session_requests(node.name),
        request=envelope_seal(settings.PORTAL_KEY, envelope),
        down=down,
        up=up,
    )


def size_of(frame: Frame) -> int:
    """Bytes of a frame that count against the window."""
    return len(frame.payload) if frame.kind in (FrameKind.DATA, FrameKind.ERRORS) else 0


def failure_of(end: SessionEnd) -> SessionFailed | None:
    """What an end tells of a failure, in words that a database keeps; None where all went well."""
    if not end.fault:
        return None
    known = end.fault in set(SessionFault)
    words = end.message[:WORDS].replace("\0", "\ufffd")
    return SessionFailed(SessionFault(end.fault) if known else SessionFault.BROKEN, words)

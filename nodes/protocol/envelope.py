"""Signed envelopes. Portal and nodes each have an Ed25519 key; bodies are signed by the one and addressed to the other,
and secrets inside are sealed to the node's key (libsodium sealed boxes, by PyNaCl)."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import msgspec
from nacl.encoding import Base64Encoder
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.public import PublicKey, SealedBox
from nacl.signing import SigningKey, VerifyKey

from nodes.protocol.decoding import decoded


class EnvelopeRejected(Exception):
    """A message that must not be obeyed. ``reason`` is one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EnvelopeForged(EnvelopeRejected):
    """Wrong signature, wrong sender, or meant for somebody else."""


class SignedByAnother(EnvelopeForged):
    """The signature is not of the known key."""


class EnvelopeExpired(EnvelopeRejected):
    """The message came too late by the reader's clock. ``body`` is authentic all the same: the sender's clock can be
    learned from it."""

    def __init__(self, late_ms: int, body: bytes) -> None:
        super().__init__(f"the message expired {late_ms} ms ago by this machine's clock")
        self.body = body


@dataclass(frozen=True, slots=True)
class Envelope:
    """The signed content: body with sender, addressee, kind and expiry (unix ms)."""

    sender: str
    to: str
    kind: str
    expires_ms: int
    body: str


class _Key:
    def __init__(self, signing: SigningKey) -> None:
        self._signing = signing

    @classmethod
    def generate(cls) -> Self:
        return cls(SigningKey.generate())

    @classmethod
    def load(cls, secret: str) -> Self:
        return cls(SigningKey(secret.encode(), Base64Encoder))

    @property
    def public(self) -> str:
        """The public half as text (base64), to be registered on the other side."""
        return self._signing.verify_key.encode(Base64Encoder).decode()

    @property
    def secret(self) -> str:
        """The private seed as text (base64). Belongs in a file of mode 0600 and nowhere else."""
        return self._signing.encode(Base64Encoder).decode()

    def sign(self, data: bytes) -> bytes:
        """Detached signature, 64 bytes."""
        return self._signing.sign(data).signature


class PortalKey(_Key):
    """The portal's signing key."""

    @staticmethod
    def seal_for(node_public: str, data: bytes) -> str:
        """Encrypts ``data`` for that node's key alone (base64)."""
        return base64.b64encode(_box(node_public).encrypt(data)).decode()


@lru_cache(maxsize=1024)
def _box(node_public: str) -> SealedBox[PublicKey]:
    """The sealed box of a node's key, cached: converting the key takes as long as sealing."""
    return SealedBox(VerifyKey(node_public.encode(), Base64Encoder).to_curve25519_public_key())


class NodeKey(_Key):
    """A node's key: signs reports and log batches, opens what is sealed for it."""

    def unseal(self, sealed: str) -> bytes:
        """The inverse of ``PortalKey.seal_for``. Raises EnvelopeForged when it was sealed for another key."""
        try:
            return SealedBox(self._signing.to_curve25519_private_key()).decrypt(base64.b64decode(sealed))
        except (CryptoError, ValueError) as error:
            raise EnvelopeForged("this was sealed for another node's key") from error


def envelope_seal(key: _Key, envelope: Envelope) -> str:
    """Signs the envelope; the text is the only argument of the Celery task: ``<signature>.<envelope>``, both base64."""
    inner = msgspec.json.encode(envelope)
    return f"{base64.b64encode(key.sign(inner)).decode()}.{base64.b64encode(inner).decode()}"


def envelope_open(text: str, *, public: str, sender: str, to: str, kind: str, now_ms: int) -> bytes:
    """The body, once signature, sender, addressee, kind and expiry are verified. Raises EnvelopeRejected."""
    signature, _, inner_text = text.partition(".")
    try:
        inner = base64.b64decode(inner_text, validate=True)
        verify(public, inner, base64.b64decode(signature, validate=True))
        envelope = decoded(inner, Envelope)
    except (ValueError, msgspec.MsgspecError) as error:
        raise EnvelopeForged(f"not a message of {sender}: {error}") from error
    if (envelope.sender, envelope.to, envelope.kind) != (sender, to, kind):
        raise EnvelopeForged(
            f"a {envelope.kind} from {envelope.sender} to {envelope.to}, expected a {kind} from {sender} to {to}"
        )
    if envelope.expires_ms < now_ms:
        raise EnvelopeExpired(now_ms - envelope.expires_ms, envelope.body.encode())
    return envelope.body.encode()


def envelope_sender(text: str) -> str:
    """The claimed sender, unverified, to look the public key up. Raises EnvelopeForged when unreadable."""
    try:
        inner = base64.b64decode(text.partition(".")[2], validate=True)
        return decoded(inner, Envelope).sender
    except (ValueError, msgspec.MsgspecError) as error:
        raise EnvelopeForged(f"unreadable envelope: {error}") from error


def public_key_check(text: str) -> None:
    """Checks a node's public key, written as ``NodeKey.public`` writes it, usable for signatures and for sealing.
    Raises ValueError."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the one way to write it")
    try:
        VerifyKey(raw).to_curve25519_public_key()
    except CryptoError as error:
        raise ValueError("no point of the curve that keys are on") from error


def verify(public: str, data: bytes, signature: bytes) -> None:
    """Verifies ``signature`` of ``public`` over ``data``. Raises SignedByAnother."""
    try:
        VerifyKey(public.encode(), Base64Encoder).verify(data, signature)
    except (BadSignatureError, ValueError, TypeError) as error:
        raise SignedByAnother("the signature does not belong to the registered key") from error

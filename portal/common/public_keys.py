"""Public SSH keys as text: strict parsing, and fingerprints."""

from __future__ import annotations

import base64
import hashlib
from enum import StrEnum
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

LEAST_RSA_BITS = 2048


class PublicKey(NamedTuple):
    """A key as it is stored: one line without its comment, its algorithm, its fingerprint as OpenSSH shows it, and the
    comment."""

    line: str
    kind: str
    fingerprint: str
    comment: str


class KeyFault(StrEnum):
    """Why a text is refused as a public key."""

    PRIVATE = "private"
    NO_LINE = "no line"
    KIND = "kind"
    NO_KEY = "no key"
    SHORT = "short"


class NoPublicKey(Exception):
    """The text is no usable public key; ``kind`` and ``bits`` are what was recognised of it."""

    def __init__(self, fault: KeyFault, *, kind: str = "", bits: int = 0) -> None:
        super().__init__(fault)
        self.fault, self.kind, self.bits = fault, kind, bits


def public_key_parse(text: str) -> PublicKey:
    """Parses a line of ``authorized_keys`` or a ``.pub`` file. Raises NoPublicKey for anything else: options, several
    lines, a private key."""
    words = text.strip().split(None, 2)
    if "PRIVATE KEY" in text:
        raise NoPublicKey(KeyFault.PRIVATE)
    if "\n" in text.strip() or len(words) < 2:
        raise NoPublicKey(KeyFault.NO_LINE)
    line = f"{words[0]} {words[1]}"
    try:
        key = load_ssh_public_key(line.encode())
        blob = base64.b64decode(words[1], validate=True)
    except UnsupportedAlgorithm:
        raise NoPublicKey(KeyFault.KIND, kind=words[0][:40]) from None
    except ValueError:
        raise NoPublicKey(KeyFault.NO_KEY) from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise NoPublicKey(KeyFault.SHORT, bits=key.key_size)
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return PublicKey(line, words[0], f"SHA256:{digest}", words[2] if len(words) > 2 else "")

"""Encryption of stored secrets with a key from a file, never from the database (libsodium secret boxes)."""

from __future__ import annotations

import base64
import json
from typing import Any

from django.conf import settings
from nacl.encoding import HexEncoder
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox


class SealBroken(Exception):
    """A secret was sealed under another key than the present key file's."""


def _box() -> SecretBox:
    return SecretBox(settings.SEALING_KEY.encode(), encoder=HexEncoder)


def seal(value: Any) -> str:
    """Encrypts a JSON value into text for a database row."""
    return base64.b64encode(_box().encrypt(json.dumps(value).encode())).decode()


def unseal(text: str) -> Any:
    """Decrypts what ``seal`` made; an empty text is an empty mapping. Raises SealBroken."""
    if not text:
        return {}
    try:
        return json.loads(_box().decrypt(base64.b64decode(text)))
    except (CryptoError, ValueError) as error:
        raise SealBroken("a secret cannot be opened: keys/sealing.key is not the one it was sealed with") from error

"""Secrets at rest: sealed under a key that lies in a file, never in the database (libsodium secret boxes)."""

from __future__ import annotations

import base64
import json
from typing import Any

from django.conf import settings
from nacl.encoding import HexEncoder
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox


class SealBroken(Exception):
    """Sealed under another key: the key file is not the one this database was written with."""


def _box() -> SecretBox:
    return SecretBox(settings.SEALING_KEY.encode(), encoder=HexEncoder)


def seal(value: Any) -> str:
    """JSON value -> text that is safe in a database row."""
    return base64.b64encode(_box().encrypt(json.dumps(value).encode())).decode()


def unseal(text: str) -> Any:
    """The inverse; an empty text is an empty mapping. Raises SealBroken."""
    if not text:
        return {}
    try:
        return json.loads(_box().decrypt(base64.b64decode(text)))
    except (CryptoError, ValueError) as error:
        raise SealBroken("a secret cannot be opened: keys/sealing.key is not the one it was sealed with") from error

"""What a thing looks like, as one short word: two who change it at one moment learn of each other by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from portal.common.errors import ChangedMeanwhile

LENGTH = 16


def version_of(values: Mapping[str, Any]) -> str:
    """The same word for the same values (plain JSON), another for others: an ETag without its quotes."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def version_check(values: Mapping[str, Any], seen: str | None) -> None:
    """Raises ChangedMeanwhile where ``seen`` is given and the thing is another by now; the caller holds its row."""
    if seen is not None and seen != version_of(values):
        raise ChangedMeanwhile(gettext("It was changed meanwhile; read it again, and change what is there now."))

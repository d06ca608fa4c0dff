"""Optimistic locking: a short hash of a thing's content, by which two who change it at once notice each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from portal.common.errors import ChangedMeanwhile

LENGTH = 16


def version_of(values: Mapping[str, Any]) -> str:
    """Hash of these values (plain JSON), the same for equal ones: an ETag without its quotes."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def version_check(values: Mapping[str, Any], seen: str | None) -> None:
    """Raises ChangedMeanwhile if ``seen`` is given and the thing has changed since; the caller holds its row lock."""
    if seen is not None and seen != version_of(values):
        raise ChangedMeanwhile(gettext("It was changed meanwhile; read it again, and change what is there now."))

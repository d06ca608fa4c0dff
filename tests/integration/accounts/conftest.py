"""Passwords are hashed fast here: what is tested is not how slow the hash is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_django.fixtures import Settings

if TYPE_CHECKING:
    pass


@pytest.fixture(autouse=True)
def _fast_hash(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

"""Passwords are hashed fast here: what is tested is not how slow the hash is."""

import pytest
from pytest_django.fixtures import Settings


@pytest.fixture(autouse=True)
def _fast_hash(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

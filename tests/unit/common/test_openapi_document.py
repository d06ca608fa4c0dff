"""The OpenAPI document as it is made."""

from __future__ import annotations

import inspect
import re

import pytest
from django.core.management import call_command
from django.test import Client

from portal.common.serializers import Answer, Body, Ready
from portal.common.shapes import Shape
from tests.support.people.cast import HOST


def test_the_document_is_made_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """Two bodies of one name, for example, would be one body for both addresses."""
    call_command("spectacular", "--fail-on-warn", "--validate", "--api-version", "v1")
    assert "Warning" not in capfd.readouterr().err


def test_no_schema_is_described_by_the_sentence_of_a_base_class() -> None:
    """These speak of the code, to us; and what is said of a change is wrong of what is made."""
    schemas = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()["components"]["schemas"]
    described = {name: schema.get("description", "") for name, schema in schemas.items()}
    bases = {inspect.cleandoc(kind.__doc__ or "") for kind in (Answer, Body, Ready, Shape)}
    assert [name for name, words in described.items() if words in bases or re.search(r"``\w", words)] == []
    changes = [name for name, words in described.items() if words.startswith("What shall be different")]
    assert changes
    assert all(name.startswith("Patched") for name in changes)

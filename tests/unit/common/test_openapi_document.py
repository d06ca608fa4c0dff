"""The OpenAPI document as it is made."""

from __future__ import annotations

import pytest
from django.core.management import call_command


def test_the_document_is_made_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """Two bodies of one name, for example, would be one body for both addresses."""
    call_command("spectacular", "--fail-on-warn", "--validate", "--api-version", "v1")
    assert "Warning" not in capfd.readouterr().err

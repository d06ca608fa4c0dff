"""OpenPAI's API as the judge of every answer: its shapes, its statuses, its error codes."""

from __future__ import annotations

import json
import re
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.people.openpai_table import document, table

PREFIX = "/rest-server"
MORE_CODES = {"InvalidProtocolError", "ConflictGroupError", "TooManyRequestsError"}
"""Told by OpenPAI's REST server, or needed by us, and missing in its document."""


def codes() -> set[str]:
    """Every error code that OpenPAI knows."""
    return {*table()["codes"], *MORE_CODES}


def operation(method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """The address as the table writes it, and the operation; None for one that it does not have."""
    found = [
        (template, entry[method.lower()])
        for template, entry in document()["paths"].items()
        if method.lower() in entry and _pattern(template).fullmatch(path.removesuffix("/"))
    ]
    return min(found, key=lambda one: one[0].count("{"), default=None)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", template.removesuffix("/"))
    return re.compile("[^/~]+".join(map(re.escape, parts)))


def check(method: str, path: str, status: int, kind: str, body: bytes) -> None:
    """Asserts that OpenPAI's API has this answer."""
    if status >= 400:
        told = json.loads(body)
        assert set(told) == {"code", "message"}, told
        assert told["code"] in codes(), told
        assert told["message"]
        return
    known = operation(method, path)
    if known is None:
        return
    _, entry = known
    assert str(status) in entry["responses"], f"{method} {path} answers {status}"
    content = entry["responses"][str(status)].get("content", {})
    if kind.startswith("application/json") and (shape := content.get("application/json", {}).get("schema")):
        errors = [error.message for error in Draft202012Validator(shape).iter_errors(json.loads(body))]
        assert not errors, f"{method} {path}: {errors[:3]}"

"""OpenPAI's own document as the judge of every answer: its schemas, its statuses, its error codes."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.jobs.spec.builders import OPENPAI

PREFIX = "/rest-server"
MORE_CODES = {"InvalidProtocolError", "ConflictGroupError", "TooManyRequestsError"}
"""Told by OpenPAI's REST server, or needed by us, and missing in its document."""


@cache
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((OPENPAI / "rest_server_swagger.yaml").read_text())
    return loaded


@cache
def codes() -> frozenset[str]:
    """Every error code that the document knows, in its list or in an example."""
    components = document()["components"]
    listed = components["schemas"]["Response"]["properties"]["code"]["enum"]
    examples = re.findall(r'"code": "(\w+)"', json.dumps(components["responses"]))
    return frozenset({*listed, *examples, *MORE_CODES})


def operation(method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """The address as the document writes it, and the operation; None for one that it does not have."""
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
    """Asserts that OpenPAI's document allows this answer."""
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
    content = _resolved(entry["responses"][str(status)]).get("content", {})
    if kind.startswith("application/json") and (shape := content.get("application/json", {}).get("schema")):
        errors = [error.message for error in Draft202012Validator(_plain(shape)).iter_errors(json.loads(body))]
        assert not errors, f"{method} {path}: {errors[:3]}"


def _resolved(shape: dict[str, Any]) -> dict[str, Any]:
    reference = shape.get("$ref", "")
    if not reference.startswith("#/"):
        return {} if reference else shape
    found: dict[str, Any] = document()
    for name in reference[2:].split("/"):
        found = found[name]
    return _resolved(found)


def _plain(shape: Any) -> Any:
    """A schema of OpenAPI 3.0 as JSON Schema knows it: references put in, ``nullable`` as a type."""
    if isinstance(shape, list):
        return [_plain(one) for one in shape]
    if not isinstance(shape, dict):
        return shape
    resolved = _resolved(shape)
    plain = {key: _plain(value) for key, value in resolved.items() if key not in {"example", "nullable"}}
    return {"anyOf": [plain, {"type": "null"}]} if resolved.get("nullable") is True else plain

"""Examples in the OpenAPI document: requests and answers as recorded by `make examples`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("examples.json")
YAMLS = ("application/yaml", "application/x-yaml", "text/yaml")
"""Names of the same media type."""


@cache
def examples_recorded() -> dict[str, Any]:
    """The examples of each operation: `request` and, by status, `answers`; each a list of media type, title and
    value."""
    recorded: dict[str, Any] = json.loads(FILE.read_text())
    return recorded


def examples_add(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Postprocessing hook that adds the examples to every operation."""
    recorded = examples_recorded()
    for methods in result["paths"].values():
        for operation in methods.values():
            of = recorded.get(operation["operationId"], {"request": [], "answers": {}})
            _fill(operation.get("requestBody", {}), of["request"])
            for status, answer in operation["responses"].items():
                _fill(answer, of["answers"].get(status, []))
    return result


def _fill(described: dict[str, Any], examples: list[dict[str, Any]]) -> None:
    for media, content in described.get("content", {}).items():
        alike = YAMLS if media in YAMLS else (media,)
        fitting = [one for one in examples if one["media"] in alike]
        if fitting:
            content["examples"] = {one["title"] or "example": {"value": one["value"]} for one in fitting}

"""OpenPAI's REST API as an OpenAPI document, made from the table of its operations, fields and types."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import yaml

from tests.support.run.facts import DATA

Schema = dict[str, Any]

MEDIA = {"json": "application/json", "form": "application/x-www-form-urlencoded", "yaml": "text/yaml"}
PLAIN: dict[str, Schema] = {
    **{kind: {"type": kind} for kind in ("string", "integer", "number", "boolean", "object")},
    "any": {},
    "natural": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "minLength": 1, "maxLength": 255},
}


@cache
def table() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DATA / "openpai" / "api.yaml").read_text())
    return loaded


@cache
def document() -> dict[str, Any]:
    """With every shape put in where it is used."""
    paths: dict[str, Any] = {}
    for name, entry in table()["operations"].items():
        method, path = name.split()
        paths.setdefault(path, {})[method.lower()] = _operation(path, entry)
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "OpenPAI", "version": "2"},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": bearer}},
    }


def schema(shape: Any) -> Schema:
    """A type of the table as JSON Schema."""
    if isinstance(shape, list):
        return {"type": "array", "items": schema(shape[0])}
    if isinstance(shape, str):
        return _named(shape)
    match shape:
        case {"one of": values}:
            return {"enum": values}
        case {"any of": shapes}:
            return {"anyOf": [schema(one) for one in shapes]}
        case {"some of": one}:
            return {"type": "array", "items": schema(one), "minItems": 1}
        case {"*": one}:
            return {"type": "object", "additionalProperties": schema(one)}
    made = _fields({key: one for key, one in shape.items() if key != "?"})
    return _or_null(made) if "?" in shape else made


def _named(name: str) -> Schema:
    if name.endswith("?"):
        return _or_null(_named(name[:-1]))
    return PLAIN[name] if name in PLAIN else schema(table()["shapes"][name])


def _or_null(made: Schema) -> Schema:
    return {"anyOf": [made, {"type": "null"}]}


def _fields(shape: dict[str, Any]) -> Schema:
    required = sorted(key[:-1] for key in shape if key.endswith("!"))
    properties = {key.removesuffix("!"): schema(one) for key, one in shape.items()}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _operation(path: str, entry: dict[str, Any]) -> dict[str, Any]:
    query = [{"name": name, "in": "query", "schema": schema(one)} for name, one in entry.get("query", {}).items()]
    places = [
        {"name": name, "in": "path", "required": True, "schema": PLAIN["string"]}
        for name in re.findall(r"{(\w+)}", path)
    ]
    answers = {str(status): _answer(shape) for status, shape in entry["answers"].items()}
    errors = {str(status): _answer("Response") for status in entry.get("errors", ())}
    made = {"parameters": [*places, *query], "responses": answers | errors}
    for key, media in MEDIA.items():
        for name in {key, f"{key}?"} & entry.keys():
            made["requestBody"] = {"content": {media: {"schema": schema(entry[name])}}, "required": name == key}
    return made if entry.get("public") else {**made, "security": [{"bearer": []}]}


def _answer(shape: Any) -> dict[str, Any]:
    if shape == "nothing":
        return {"description": ""}
    media = "json"
    if isinstance(shape, str) and " as " in shape:
        shape, media = shape.split(" as ")
    return {"description": "", "content": {MEDIA[media]: {"schema": schema(shape)}}}

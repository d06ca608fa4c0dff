"""The client's types and the portal's OpenAPI document agree: the same fields, of the same types, at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from msgspec.inspect import (
    BoolType,
    DateTimeType,
    DateType,
    DecimalType,
    DictType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    StrType,
    StructType,
    TupleType,
    Type,
    UnionType,
    type_info,
)

from berth.model import accounts, base, cluster, jobs, usage
from tests.support.people.cast import HOST

ANSWERS: dict[tuple[str, str], Any] = {
    ("me", "get"): accounts.Me,
    ("login", "post"): accounts.NewToken,
    ("tokens", "get"): base.Page[accounts.Token],
    ("tokens", "post"): accounts.NewToken,
    ("jobs", "get"): base.Page[jobs.Job],
    ("jobs", "post"): jobs.JobDetail,
    ("jobs/{job_id}", "get"): jobs.JobDetail,
    ("jobs/{job_id}/stop", "post"): jobs.JobDetail,
    ("jobs/{job_id}/pause", "post"): jobs.JobDetail,
    ("jobs/{job_id}/resume", "post"): jobs.JobDetail,
    ("jobs/{job_id}/move", "post"): jobs.Moved,
    ("jobs/{job_id}/tags", "patch"): jobs.Tags,
    ("jobs/{job_id}/priority", "post"): jobs.JobDetail,
    ("jobs/{job_id}/place", "post"): jobs.JobDetail,
    ("jobs/{job_id}/events", "get"): base.Page[jobs.Event],
    ("jobs/{job_id}/attempts", "get"): base.Page[jobs.Attempt],
    ("jobs/{job_id}/preemptions", "get"): base.Page[jobs.Preemption],
    ("jobs/{job_id}/tasks", "get"): base.Page[jobs.Task],
    ("jobs/{job_id}/logs", "get"): jobs.LogSlice,
    ("jobs/{job_id}/files", "get"): base.Page[jobs.File],
    ("jobs/{job_id}/metrics", "get"): jobs.Metrics,
    ("jobs/{job_id}/advice", "get"): jobs.JobAdvice,
    ("usage", "get"): usage.Usage,
    ("skus/{name}", "patch"): cluster.Sku,
    ("validate", "post"): jobs.Validation,
    ("estimates", "post"): jobs.Estimate,
    ("queue", "get"): base.Page[jobs.Queued],
    ("nodes", "get"): base.Page[cluster.Node],
    ("nodes/{name}", "get"): cluster.Node,
    ("nodes/{name}", "patch"): cluster.Node,
    ("nodes/{name}", "delete"): cluster.NodeRemoved,
    ("nodes/{name}/accept", "post"): cluster.Node,
    ("nodes/{name}/cpu-tasks", "put"): cluster.Node,
    ("alerts", "get"): list[cluster.Alert],
    ("alert-silences", "get"): list[cluster.AlertSilence],
    ("alert-silences", "post"): cluster.AlertSilence,
    ("templates", "get"): base.Page[cluster.Template],
    ("templates", "post"): cluster.TemplateDetail,
    ("templates/{template_id}", "get"): cluster.TemplateDetail,
    ("templates/{template_id}", "patch"): cluster.TemplateDetail,
    ("images", "get"): base.Page[cluster.ImageRule],
    ("images", "post"): cluster.ImageRule,
    ("storages", "get"): base.Page[cluster.Storage],
    ("storages", "post"): cluster.Storage,
    ("storages/{name}", "get"): cluster.Storage,
    ("storages/{name}", "patch"): cluster.Storage,
    ("storages/{name}/servers", "get"): list[cluster.StorageServer],
    ("storages/{name}/servers/{node}", "put"): cluster.StorageServer,
    ("gpus", "get"): base.Page[cluster.LeafGpu],
    ("skus", "get"): list[cluster.Sku],
    ("virtual-clusters", "get"): base.Page[cluster.VirtualCluster],
    ("virtual-clusters/{name}", "get"): cluster.VirtualClusterDetail,
    ("virtual-clusters/{name}/shares", "get"): list[cluster.UserShare],
    ("users", "get"): base.Page[accounts.User],
    ("users", "post"): accounts.User,
    ("users/{username}", "get"): accounts.User,
    ("users/{username}", "patch"): accounts.User,
    ("users/import", "post"): accounts.Imported,
    ("groups", "get"): base.Page[accounts.Group],
    ("groups", "post"): accounts.GroupDetail,
    ("groups/{group}", "get"): accounts.GroupDetail,
    ("groups/{group}", "patch"): accounts.GroupDetail,
}
UNREAD = {"Page": {"previous", "count"}}
"""What the client has no use for."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
    return found


@pytest.mark.parametrize("operation", ANSWERS, ids=" ".join)
def test_each_answer_has_the_fields_and_types_that_the_portal_documents(
    document: dict[str, Any], operation: tuple[str, str]
) -> None:
    path, method = operation
    answers = document["paths"][f"/api/v1/{path}"][method]["responses"]
    good = next(answers[status] for status in ("200", "201") if status in answers)
    schema = good["content"]["application/json"]["schema"]
    assert list(differences(document, schema, type_info(ANSWERS[operation]), path)) == []


def differences(
    document: dict[str, Any], schema: dict[str, Any], kind: Type, where: str, *, optional: bool = False
) -> Iterator[str]:
    """Fields that only one side has, and types that differ, at any depth. A field that is ``optional`` for the client,
    as older servers do not send it, may be None there alone."""
    ours, theirs = json_types_of(kind), json_types(document, schema)
    if (
        ours
        and theirs
        and ours - ({"null"} if optional else set()) != theirs - ({"null"} & ours if optional else set())
    ):
        yield f"{where}: {sorted(ours)} here, {sorted(theirs)} there"
    if isinstance(kind, UnionType):
        kind = next((one for one in kind.types if isinstance(one, StructType | ListType)), kind)
    schema = resolved(document, schema)
    if isinstance(kind, ListType):
        yield from differences(document, schema["items"], kind.item_type, f"{where}[]")
    elif isinstance(kind, StructType):
        fields = {field.encode_name: field for field in kind.fields}
        named = schema["properties"].keys() - UNREAD.get(kind.cls.__name__, set())
        yield from (f"{where}.{name}" for name in sorted(named ^ fields.keys()))
        for name in named & fields.keys():
            field = fields[name]
            yield from differences(
                document, schema["properties"][name], field.type, f"{where}.{name}", optional=not field.required
            )


def json_types(document: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """What a value may be by the document, with its format where that is a time; nothing: whatever it likes."""
    if "$ref" in schema:
        return json_types(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf") or ()
    if choices:
        found = set().union(*(json_types(document, one) for one in choices))
    else:
        types = schema.get("type") or ([] if "enum" not in schema else [NAMES[type(one)] for one in schema["enum"]])
        found = {types} if isinstance(types, str) else {*types}
    if schema.get("format") in ("date-time", "date"):
        found = {schema["format"] if one == "string" else one for one in found}
    return found | ({"null"} if schema.get("nullable") else set())


NAMES = {str: "string", int: "integer", type(None): "null"}
OURS = {
    IntType: "integer", FloatType: "number", StrType: "string", DecimalType: "string", BoolType: "boolean",
    NoneType: "null", DateTimeType: "date-time", DateType: "date", DictType: "object", StructType: "object",
    ListType: "array", TupleType: "array",
}  # fmt: skip


def json_types_of(kind: Type) -> set[str]:
    """What a value may be by the client; nothing: whatever it likes."""
    if isinstance(kind, UnionType):
        return set().union(*map(json_types_of, kind.types))
    return {OURS[type(kind)]} if type(kind) in OURS else set()


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """What a reference means, also where null is allowed beside it."""
    while "properties" not in schema:
        choices = [
            one for one in (schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf") or ()) if "$ref" in one
        ]
        reference = schema.get("$ref") or (choices[0]["$ref"] if choices else None)
        if reference is None:
            return schema
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    return schema

"""The client's types and the portal's OpenAPI document say the same: no field is missed, none is expected in vain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from msgspec.inspect import ListType, StructType, Type, UnionType, type_info

from berth import model
from tests.support.cast import HOST

ANSWERS: dict[tuple[str, str], Any] = {
    ("me", "get"): model.Me,
    ("login", "post"): model.NewToken,
    ("tokens", "get"): model.Page[model.Token],
    ("tokens", "post"): model.NewToken,
    ("jobs", "get"): model.Page[model.Job],
    ("jobs", "post"): model.JobDetail,
    ("jobs/{job_id}", "get"): model.JobDetail,
    ("jobs/{job_id}/stop", "post"): model.JobDetail,
    ("jobs/{job_id}/pause", "post"): model.JobDetail,
    ("jobs/{job_id}/resume", "post"): model.JobDetail,
    ("jobs/{job_id}/move", "post"): model.Moved,
    ("jobs/{job_id}/tags", "patch"): model.Tags,
    ("jobs/{job_id}/priority", "post"): model.JobDetail,
    ("jobs/{job_id}/place", "post"): model.JobDetail,
    ("jobs/{job_id}/events", "get"): model.Page[model.Event],
    ("jobs/{job_id}/attempts", "get"): model.Page[model.Attempt],
    ("jobs/{job_id}/preemptions", "get"): model.Page[model.Preemption],
    ("jobs/{job_id}/tasks", "get"): model.Page[model.Task],
    ("jobs/{job_id}/logs", "get"): model.LogSlice,
    ("jobs/{job_id}/files", "get"): model.Page[model.File],
    ("jobs/{job_id}/metrics", "get"): model.Metrics,
    ("usage", "get"): model.Usage,
    ("skus/{name}", "patch"): model.Sku,
    ("validate", "post"): model.Validation,
    ("estimates", "post"): model.Estimate,
    ("queue", "get"): model.Page[model.Queued],
    ("nodes", "get"): model.Page[model.Node],
    ("nodes/{name}", "get"): model.Node,
    ("nodes/{name}", "patch"): model.Node,
    ("nodes/{name}", "delete"): model.NodeRemoved,
    ("nodes/{name}/accept", "post"): model.Node,
    ("nodes/{name}/cpu-tasks", "put"): model.Node,
    ("alerts", "get"): list[model.Alert],
    ("alert-silences", "get"): list[model.AlertSilence],
    ("alert-silences", "post"): model.AlertSilence,
    ("templates", "get"): model.Page[model.Template],
    ("templates", "post"): model.TemplateDetail,
    ("templates/{template_id}", "get"): model.TemplateDetail,
    ("templates/{template_id}", "patch"): model.TemplateDetail,
    ("images", "get"): model.Page[model.ImageRule],
    ("images", "post"): model.ImageRule,
    ("storages", "get"): model.Page[model.Storage],
    ("storages", "post"): model.Storage,
    ("storages/{name}", "get"): model.Storage,
    ("storages/{name}", "patch"): model.Storage,
    ("storages/{name}/servers", "get"): list[model.StorageServer],
    ("storages/{name}/servers/{node}", "put"): model.StorageServer,
    ("gpus", "get"): model.Page[model.LeafGpu],
    ("skus", "get"): list[model.Sku],
    ("virtual-clusters", "get"): model.Page[model.VirtualCluster],
    ("virtual-clusters/{name}", "get"): model.VirtualClusterDetail,
    ("virtual-clusters/{name}/shares", "get"): list[model.UserShare],
    ("users", "get"): model.Page[model.User],
    ("users", "post"): model.User,
    ("users/{username}", "get"): model.User,
    ("users/{username}", "patch"): model.User,
    ("users/import", "post"): model.Imported,
    ("groups", "get"): model.Page[model.Group],
    ("groups", "post"): model.GroupDetail,
    ("groups/{group}", "get"): model.GroupDetail,
    ("groups/{group}", "patch"): model.GroupDetail,
}
UNREAD = {"Page": {"previous", "count"}}
"""What the client has no use for."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
    return found


@pytest.mark.parametrize("operation", ANSWERS, ids=" ".join)
def test_each_answer_has_the_fields_that_the_portal_documents(
    document: dict[str, Any], operation: tuple[str, str]
) -> None:
    path, method = operation
    answers = document["paths"][f"/api/v1/{path}"][method]["responses"]
    good = next(answers[status] for status in ("200", "201") if status in answers)
    schema = good["content"]["application/json"]["schema"]
    assert list(differences(document, schema, type_info(ANSWERS[operation]), path)) == []


def differences(document: dict[str, Any], schema: dict[str, Any], kind: Type, where: str) -> Iterator[str]:
    """Fields that only one side has, at any depth."""
    if isinstance(kind, UnionType):
        kind = next((one for one in kind.types if isinstance(one, StructType | ListType)), kind)
    schema = resolved(document, schema)
    if isinstance(kind, ListType):
        yield from differences(document, schema["items"], kind.item_type, f"{where}[]")
    elif isinstance(kind, StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        named = schema["properties"].keys() - UNREAD.get(kind.cls.__name__, set())
        yield from (f"{where}.{name}" for name in sorted(named ^ fields.keys()))
        for name in named & fields.keys():
            yield from differences(document, schema["properties"][name], fields[name], f"{where}.{name}")


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

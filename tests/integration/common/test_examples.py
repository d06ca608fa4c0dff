"""The examples of the OpenAPI document: there for every operation, fit for its schema, and what the API answers today.

`make examples` asks anew and writes what was answered."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from portal.common.examples import FILE, examples_recorded
from tests.examples.recording import BINARY, fields, recorded
from tests.support.people.cast import HOST

ADDRESS = "/api/v1/openapi.json"
RECORDING = bool(os.environ.get("BERTH_TEST_RECORD"))


@pytest.mark.django_db(transaction=True)
def test_the_api_answers_today_what_the_examples_have(tmp_path: Path, settings: Any) -> None:
    from django.conf import settings as known

    from tests.examples.clock import stopped
    from tests.examples.scene import Scene
    from tests.support.cluster.echo_node import echo_door

    settings.METRICS_DIR, settings.LOG_DIR = tmp_path / "metrics", tmp_path / "logs"
    with stopped() as clock:
        scene = Scene(clock, tmp_path, settings.METRICS_DIR, settings.LOG_DIR)
        node = scene.world.nodes["gpu01"]
        door = echo_door(
            node=node.name, key=node.key, portal_public_key=known.PORTAL_KEY.public, boot=node.boot,
            redis_url=known.REDIS_URL, root=scene.root,
        )  # fmt: skip
        with door:
            today = recorded(scene)
    if RECORDING:
        FILE.write_text(json.dumps(today, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        examples_recorded.cache_clear()
    assert fields(today) == fields(examples_recorded()), "`make examples` writes them anew"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    made: dict[str, Any] = Client(HTTP_HOST=HOST).get(ADDRESS).json()
    return made


def contents(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that is sent: by us with a status that is no refusal, and to us."""
    for methods in described["paths"].values():
        for operation in methods.values():
            answers = [answer for status, answer in operation["responses"].items() if status < "400"]
            for place, one in [("request", operation.get("requestBody", {})), *(("answer", one) for one in answers)]:
                for media, content in one.get("content", {}).items():
                    if media not in BINARY:
                        yield f"{operation['operationId']} {place} {media}", content


def test_the_document_is_valid_by_a_validator_of_others(described: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(described).validate()


def test_every_operation_has_examples_and_each_fits_its_schema(described: dict[str, Any]) -> None:
    checked, faults = 0, []
    for name, content in contents(described):
        if not content.get("examples"):
            faults.append(f"{name} has none")
            continue
        if "yaml" in name:
            continue  # a text, judged as a job file by the answers that were recorded
        judge = Draft202012Validator({**content["schema"], "components": described["components"]})
        for example in content["examples"].values():
            faults += [f"{name}: {error.message}" for error in judge.iter_errors(example["value"])]
            checked += 1
    assert not faults
    assert checked > 150


def test_what_is_recorded_is_of_operations_that_are_there(described: dict[str, Any]) -> None:
    there = {one["operationId"] for methods in described["paths"].values() for one in methods.values()}
    assert examples_recorded().keys() == there


def test_examples_show_neither_a_secret_nor_a_folder_of_this_run(described: dict[str, Any]) -> None:
    text = FILE.read_text()
    assert not [word for word in ("pytest-of", "/tmp/berth", "127.0.0.1") if word in text]
    assert len(text) < 400_000


def test_the_document_is_made_once_sent_compressed_and_only_when_it_is_another() -> None:
    first = Client(HTTP_HOST=HOST).get(ADDRESS, headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert len(first.content) < 100_000
    plain = Client(HTTP_HOST=HOST).get(ADDRESS)
    assert gzip.decompress(first.content) == plain.content
    again = Client(HTTP_HOST=HOST).get(ADDRESS, headers={"If-None-Match": plain.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")

"""What is written down of OpenPAI says what its own documents and files say."""

from __future__ import annotations

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.job_file.model import JobSpec
from portal.job_file.validate import parse
from tests.support.cluster.lab6 import JOBS, lab_job
from tests.support.people import openpai_table as api_table
from tests.support.run.facts import read_json

SAMPLES = (
    *("caffe-mnist", "caffe2-resnet50", "chainer-cifar", "horovod-pytorch-synthetic-benchmark"),
    *("keras-tensorflow-mnist", "mxnet-autoencoder", "pytorch-mnist", "pytorch-regression", "rocm-pytorch-mnist"),
    *("rocm-tensorflow2", "sklearn-text-vectorizers", "tensorflow-cifar10", "tensorflow-serving-mnist"),
)


class Documents:
    """OpenPAI's document of its API, and the one of job files to which it points."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def api(self) -> dict[str, Any]:
        return self._read("rest_server_swagger.yaml")

    @cached_property
    def protocol(self) -> dict[str, Any]:
        return self._read("protocol_v2_schema.yaml")

    def _read(self, name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = yaml.safe_load((self.folder / name).read_text())
        return loaded

    def resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        """What a reference points to, in either document."""
        reference = part.get("$ref")
        if not reference:
            return part
        names = reference.partition("#/")[2].split("/")
        for document in (self.api, self.protocol):
            found: Any = document
            for name in names:
                found = found.get(name, {})
            if found and "https:" not in str(found.get("$ref")):
                return self.resolved(found)
        raise AssertionError(reference)

    def shape(self, schema: dict[str, Any]) -> Any:
        """A schema as the table's types are: no words, nothing that says the same in two ways."""
        schema = self.resolved(schema)
        if parts := schema.get("allOf"):
            made = [self.resolved(part) for part in parts]
            properties = {name: one for part in made for name, one in part.get("properties", {}).items()}
            required = [name for part in made for name in part.get("required", ())]
            return self.shape({"type": "object", "properties": properties, "required": required})
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return {"anyOf": [self.shape(one) for one in choices]}
        made_of = self._one_type(schema)
        return {"anyOf": [made_of, {"type": "null"}]} if schema.get("nullable") else made_of

    def _one_type(self, schema: dict[str, Any]) -> Any:
        if "enum" in schema:
            return {"enum": sorted(schema["enum"], key=str)}
        kept = ("type", "minimum", "minItems", "pattern", "minLength", "maxLength")
        made = {key: schema[key] for key in kept if key in schema}
        if "items" in schema:
            made["items"] = self.shape(schema["items"])
        if properties := schema.get("properties"):
            made["properties"] = {name: self.shape(one) for name, one in properties.items()}
            if required := schema.get("required"):
                made["required"] = sorted(required)
        elif isinstance(more := schema.get("additionalProperties"), dict):
            made["additionalProperties"] = self.shape(more)
        return made


@pytest.fixture(scope="session")
def documents(theirs: Path) -> Documents:
    return Documents(theirs / "openpai")


def contents(documents: Documents, part: dict[str, Any]) -> dict[str, Any]:
    """The shapes of a body or an answer by media type."""
    media = documents.resolved(part).get("content", {})
    return {kind: documents.shape(one["schema"]) if "schema" in one else {} for kind, one in media.items()}


def facts(documents: Documents, entry: dict[str, Any], shared: list[dict[str, Any]]) -> dict[str, Any]:
    """What the table says of an operation, read from the document: an error's status alone."""
    parameters = [documents.resolved(one) for one in (*shared, *entry.get("parameters", ()))]
    body = entry.get("requestBody", {})
    return {
        "parameters": sorted((one["in"], one["name"], str(documents.shape(one["schema"]))) for one in parameters),
        "body": (contents(documents, body), body.get("required", False)),
        "answers": {
            status: contents(documents, answer) if int(status) < 400 else None
            for status, answer in entry["responses"].items()
        },
        "public": not entry.get("security"),
    }


def operations(documents: Documents, paths: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{method} {path}": facts(documents, entry, methods.get("parameters", []))
        for path, methods in paths.items()
        for method, entry in methods.items()
        if method != "parameters"
    }


def test_the_table_has_every_operation_of_openpais_api_with_its_fields_and_types(documents: Documents) -> None:
    theirs = operations(documents, documents.api["paths"])
    ours = operations(documents, api_table.document()["paths"])
    assert set(ours) == set(theirs)
    for name, facts in theirs.items():
        assert ours[name] == facts, name


def test_the_table_has_every_code_that_the_document_names(documents: Documents) -> None:
    components = documents.api["components"]
    named = re.findall(r'"code": "(\w+)"', json.dumps(components["responses"]))
    listed = components["schemas"]["Response"]["properties"]["code"]["enum"]
    assert set(api_table.table()["codes"]) == {*named, *listed}


def test_the_exit_codes_are_those_of_the_specification(theirs: Path) -> None:
    specification = yaml.safe_load((theirs / "openpai" / "k8s-job-exit-spec.yaml").read_text())
    ours = read_json("openpai/exit_codes.json")
    fields = ours["fields"]
    assert ours["codes"] == [[one[field] for field in fields] for one in specification["spec"]]
    assert ours["words"] == {one["field"]: one["range"] for one in specification["schema"] if one["type"] == "Enum"}


def test_the_cases_of_the_protocol_are_openpais(theirs: Path) -> None:
    original = json.loads((theirs / "openpai" / "protocol_cases.json").read_text())
    assert read_json("openpai/protocol_cases.json") == original


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_openpai_is_accepted_and_survives_a_round_trip(name: str, theirs: Path) -> None:
    spec = parse((theirs / "openpai" / "examples" / f"{name}.yaml").read_bytes())
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert all(role.script and "<%" not in role.script for role in spec.roles)


def asked(text: str) -> dict[str, Any]:
    """What a lab's file asks for, without its name, its image and what its programs are called."""
    written = re.sub(r"python3 [\w/]+\.py", "python3 …", json.dumps(parse(text).to_json()))
    made: dict[str, Any] = json.loads(written, object_hook=_unnamed)
    return made


def _unnamed(part: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in part.items() if key not in {"name", "uri", "image"}}


@pytest.mark.parametrize("number", range(len(JOBS)))
def test_our_lab_asks_for_what_the_lab_asks_for(number: int, theirs: Path) -> None:
    original = (theirs / "openpai" / "lab6" / f"job-config-{number}.yaml").read_text()
    assert asked(lab_job(number)) == asked(original)

"""Files written as for OpenPAI mean the same here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.job_file.secrets import mask_secrets
from portal.job_file.unused import unused_keys
from portal.job_file.validate import parse, parsed_form
from tests.support.cluster.job_files import ROOT, Change, job_file, problems
from tests.support.cluster.job_files import spec as spec_of
from tests.support.cluster.lab6 import JOBS, lab_job
from tests.support.run.facts import JOB_FILES, job_text, read_json

CASES = read_json("openpai/protocol_cases.json")
FILES = {path.stem: path.read_text() for path in JOB_FILES} | {
    f"lab-{number}": lab_job(number) for number in range(len(JOBS))
}
REFUSED_AT = (
    {"additionalProp"},
    {"taskRoles.invalid-name"},
    {"taskRoles"},
    {"name"},
    {"taskRoles.valid_name.resourcePerInstance.gpu"},
    {"taskRoles.valid_name.commands"},
    {"taskRoles", "prerequisites[0].uri"},
)


@pytest.mark.parametrize("case", CASES["valid"], ids=lambda case: case["name"])
def test_a_valid_case_has_the_parsed_form_openpai_gave_it(case: dict[str, Any]) -> None:
    assert parsed_form(case["yaml"]) == case["parsed"]


@pytest.mark.parametrize(("case", "paths"), list(zip(CASES["invalid"], REFUSED_AT, strict=True)))
def test_an_invalid_case_is_refused_at_the_place_that_is_wrong(case: dict[str, Any], paths: set[str]) -> None:
    assert {problem.path for problem in problems(case["yaml"])} == paths
    with pytest.raises(SpecInvalid):
        parsed_form(case["yaml"])


@pytest.mark.parametrize("case", CASES["mask"], ids=lambda case: case["name"])
def test_masking_changes_nothing_but_the_secrets(case: dict[str, Any]) -> None:
    assert mask_secrets(case["yaml"]) == case["masked"]


@pytest.mark.parametrize("file", FILES)
def test_every_sample_job_is_accepted_and_survives_a_round_trip(file: str) -> None:
    spec = parse(FILES[file])
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert all(role.script and "<%" not in role.script for role in spec.roles)


def test_all_samples_were_found() -> None:
    assert len(FILES) == 6 + 8


@pytest.mark.parametrize(
    ("number", "vc", "priority", "instances", "gang"),
    [
        (0, "vc1", 100, 1, True),
        (1, "vc1", 10, 1, True),
        (2, "vc1", 100, 1, True),
        (3, "vc1", 100, 1, True),
        (4, "vc1", -1, 1, True),
        (5, "default", 100, 1, True),
        (6, "default", 100, 2, True),
        (7, "default", 100, 2, False),
    ],
)
def test_a_lab_job_reads_as_the_lab_says(number: int, vc: str, priority: int, instances: int, gang: bool) -> None:
    spec = parse(lab_job(number))
    (role,) = spec.roles
    assert (spec.vc, spec.priority, role.instances, spec.gang) == (vc, priority, instances, gang)
    assert (role.resources.cpu, role.resources.memory_mb, role.resources.gpu) == (2, 4096, 1)
    assert (role.completion.min_failed, role.completion.min_succeeded) == (1, 1)


def test_a_deployment_stands_around_the_commands_of_its_role() -> None:
    spec = parse(job_text("parameter_servers"))
    lines = spec.role("psserver").script.splitlines()
    assert lines[0] == "rm /usr/local/stubs/libcuda.so.1"
    assert lines[1].startswith("wget -qO- https://data.example/pictures.tar.gz |")
    assert lines[-1].startswith('echo "Keeping the model ..."')
    assert "--model=resnet20 --batch_size=32" in spec.role("worker").script


def test_the_first_job_is_a_gang_of_two_on_the_sample_team() -> None:
    spec = parse((ROOT / "examples" / "hello.yaml").read_text())
    (role,) = spec.roles
    assert (spec.name, spec.vc, spec.gang, role.name, role.instances) == (
        "hello",
        "research",
        True,
        "worker",
        2,
    )
    assert (role.image.uri, role.resources.gpu, role.resources.cpu) == ("busybox:latest", 1, 1)
    assert (role.resources.memory_mb, spec.berth.time_limit_s) == (256, 600)
    assert 'echo "step $step of 5"' in role.script


@pytest.mark.parametrize(
    "change",
    [
        ("taskRoles/train/protocolVersion", 2),
        ("taskRoles/train/completion", {"minFailedInstances": 99_999, "minSucceededInstances": 2**31 - 1}),
        ("taskRoles/train/extraContainerOptions", {"shmMB": 0}),
        ("prerequisites/-", {"name": "later", "type": "data", "uri": []}),
        ("deployments", [{"protocolVersion": 2, "name": "plain", "taskRoles": {"train": {"preCommands": ["a"]}}}]),
        ("extras/storages", None),
        ("extras/hivedScheduler", {"taskRoles": None}),
        ("extras/hivedScheduler", {"taskRoles": {"train": {"skuNumber": "1"}}}),
    ],
)
def test_what_openpai_takes_is_taken(change: Change) -> None:
    spec = spec_of(change)
    assert (spec.storages, spec.roles[0].resources.shm_mb, spec.roles[0].sku) == (None, None, None)
    assert not any("protocolVersion" in told for told in unused_keys(job_file(change)))


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("<% $parameters.gpus %>", "0,1,2"),
        ("<% $parameters.nested %>", "a,1,2,,true"),
        ("<% $parameters.none %>", ""),
        ("<% $parameters.with %>", "<% $parameters.with %>"),
        ("<% $data.uri %>", "http://a,http://b"),
        ("<%$parameters.learning rate%>", "0.1"),
        ("<% $parameters.lr/decay.a:b[0] %>", "5"),
        ("<% $parameters.learning  rate %>", "<% $parameters.learning  rate %>"),
    ],
)
def test_a_reference_brings_in_what_it_brings_in_there(reference: str, text: str) -> None:
    spec = spec_of(
        ("parameters", {"gpus": [0, 1, 2], "nested": ["a", [1, 2], None, True], "none": [], "with": [{"a": 1}],
                        "learning rate": 0.1, "lr/decay": {"a:b": [5]}}),
        ("prerequisites/-", {"name": "set", "type": "data", "uri": ["http://a", "http://b"]}),
        ("taskRoles/train/data", "set"),
        ("taskRoles/train/commands", [f"echo {reference}."]),
    )  # fmt: skip
    assert spec.roles[0].script == f"echo {text}."

"""The published schemas stand alone and agree with the validation."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError

from portal.common.priorities import PRIORITY_CLASSES
from portal.job_file.model import JOB_EVENTS
from portal.job_file.schema import schema_berth, schema_job
from tests.support.cluster.job_files import Change, job_file, problems


def test_the_schemas_are_valid_and_complete_in_themselves() -> None:
    Draft202012Validator.check_schema(schema_job())
    Draft202012Validator.check_schema(schema_berth())
    Draft202012Validator(schema_job()).validate(json.loads(job_file(("extras/berth/timeLimit", "2h"))))


@pytest.mark.parametrize(
    "change",
    [("extras/berth/timeLimit", "soon"), ("taskRoles/train/x", 1), ("name", ""), ("prerequisites/0/uri", ["x"])],
)
def test_another_program_refuses_with_the_schema_what_we_refuse(change: Change) -> None:
    text = job_file(change)
    assert problems(text)
    with pytest.raises(ValidationError):
        Draft202012Validator(schema_job()).validate(json.loads(text))


def test_a_caller_cannot_change_the_schemas() -> None:
    schema_job()["properties"].clear()
    schema_berth()["properties"].clear()
    assert schema_job()["properties"]
    assert schema_berth()["properties"]


def test_the_words_of_the_schema_are_those_of_the_model() -> None:
    hived = schema_job()["$defs"]["hivedScheduler"]["properties"]
    assert hived["jobPriorityClass"]["enum"] == [*PRIORITY_CLASSES, None]
    assert tuple(schema_berth()["properties"]["notify"]["items"]["enum"]) == JOB_EVENTS

"""What the user's page says holds."""

from __future__ import annotations

import re

import pytest

from portal.job_file.loader import MAX_ANCHORS, MAX_BYTES, MAX_DEPTH, MAX_VALUES
from portal.job_file.schema import schema_berth, schema_job
from portal.job_file.validate import MAX_ENTRIES, parse
from tests.support.cluster.job_files import ROOT

PAGE = (ROOT / "docs" / "user" / "job-file.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_page_is_accepted(text: str) -> None:
    assert parse(text).roles


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 4


def test_every_key_a_user_can_write_is_explained() -> None:
    job = schema_job()
    keys = {*job["properties"], *job["$defs"]["taskRole"]["properties"], *schema_berth()["properties"]}
    assert [key for key in sorted(keys) if f"`{key}" not in PAGE] == []


def test_the_limits_of_the_page_are_those_of_the_reader() -> None:
    limits = (
        f"{MAX_BYTES // 1_000_000} MB, {MAX_VALUES:,} values, {MAX_DEPTH} levels, {MAX_ANCHORS} anchors; {MAX_ENTRIES}"
    )
    assert limits in PAGE

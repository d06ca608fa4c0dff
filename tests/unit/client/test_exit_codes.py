"""The exit code of a command that went along with a job."""

import json
from pathlib import Path

import pytest

from berth.cli.follow import exit_code
from berth.decoding import decoded
from berth.model.jobs import JobDetail

EXAMPLES = Path("portal/common/examples.json")


@pytest.mark.parametrize(
    ("state", "told", "code"),
    [
        ("succeeded", None, 0),
        ("succeeded", 3, 0),
        ("failed", 1, 1),
        ("failed", 127, 127),
        ("failed", 128, 128),
        ("failed", 137, 137),
        ("failed", 255, 255),
        ("failed", 256, 1),
        ("failed", 0, 1),
        ("failed", -9, 1),
        ("failed", None, 1),
        ("stopped", None, 1),
        ("stopped", 143, 143),
    ],
)
def test_it_is_the_jobs_own_where_a_process_can_pass_it_on(state: str, told: int | None, code: int) -> None:
    shown = json.loads(EXAMPLES.read_text())["job"]["answers"]["200"][0]["value"]
    job = decoded(json.dumps(shown | {"state": state, "exit_code": told}), JobDetail)
    assert exit_code(job) == code

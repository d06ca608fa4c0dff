"""The commands of the Makefile, on a machine that has had none of them yet."""

import re
from pathlib import Path

import pytest

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text()


@pytest.mark.parametrize("target", ["soak", "compose-test"])
def test_a_command_that_starts_tests_of_real_parts_brings_the_parts_first(target: str) -> None:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found
    first, *rest = found[1].splitlines()
    assert first == "\t@scripts/test-parts"
    assert any("-m pytest" in line for line in rest)

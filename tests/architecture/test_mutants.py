"""Each kept mutant still fits the sources that it is made in."""

from pathlib import Path

import pytest

from tests.mutants.kept import ROOT, areas, mutants


@pytest.mark.parametrize("area", areas())
def test_each_mutant_changes_one_place_and_names_tests_that_there_are(area: str) -> None:
    listed = mutants(area)
    assert len({one.name for one in listed}) == len(listed)
    for one in listed:
        assert one.old != one.new, one.name
        changed = one.source()
        if one.file.endswith(".py"):
            compile(changed, one.file, "exec")
        words = iter(one.tests)
        paths = [word for word in words if not (word.startswith("-") and next(words))]
        assert paths, one.name
        assert all((ROOT / Path(word.partition("::")[0])).exists() for word in paths), one.name

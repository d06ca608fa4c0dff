"""The page on security names, for each that could do harm, the tests that try what keeps him out."""

from __future__ import annotations

import re

from tests.support.people.documents import ROOT

PAGE = (ROOT / "docs" / "admin" / "security.md").read_text()


def table(first: str) -> dict[str, str]:
    """The table whose first column is called so: a cell of that column, and the rest of its row. A row whose first cell
    is empty goes on with the one before."""
    rows, name = dict[str, str](), ""
    for line in PAGE.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]:
        cell, _, rest = line.strip("|").partition("|")
        name = cell.strip() or name
        rows[name] = rows.get(name, "") + rest
    return rows


def test_whoever_could_do_harm_is_tried_by_files_that_hold_tests() -> None:
    tried = table("against")
    assert list(table("who")) == list(tried)
    assert len(tried) > 5
    for name, cells in tried.items():
        files = re.findall(r"`(tests/\S+)`", cells)
        assert files, name
        for file in files:
            assert "def test_" in (ROOT / file).read_text(), file


def test_each_protection_names_files_that_hold_tests() -> None:
    page = (ROOT / "docs" / "decisions" / "protections.md").read_text()
    rows = [
        line
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith(("| **", "| --- ", "| protection "))
    ]
    assert len(rows) > 25
    for row in rows:
        files = re.findall(r"`(tests/\S+)`", row)
        assert files, row
        for file in files:
            assert "def test_" in (ROOT / file).read_text(), file

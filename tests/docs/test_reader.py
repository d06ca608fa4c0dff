"""Whoever types the commands of the pages alters nothing of the machine on which tests run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.people.reader import ALTERING, Reader, reader_of

ACCOUNTS = "docs/admin/accounts.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with reader_of(tmp_path, {"HOME": "/elsewhere", "PATH": "/elsewhere"}) as made:
        yield made


def test_what_would_alter_the_machine_is_not_found(reader: Reader) -> None:
    where = " && ".join(f'[ "$(command -v {name})" = {reader.bin}/{name} ]' for name in ALTERING)
    command = "berth --install-completion"
    words = {"pipx install git+https://example.org/berth.git": f"{where} && echo $HOME"}
    said = reader.section("docs/user/command-line.md", "Installing it", words=words, instead={command: "true"})
    assert [*said.values()][0] == f"{reader.folder}\n"
    with pytest.raises(AssertionError, match="pipx: this reader has none"):
        reader.section("docs/user/command-line.md", "Installing it")


def test_the_systems_folders_are_touched_by_none_of_a_pages_commands(reader: Reader) -> None:
    with pytest.raises(AssertionError, match=r"names \['/opt/berth/nodes/berth-node'\] of the machine"):
        reader.section("docs/admin/servers.md", "Check a server")


def test_a_command_that_fails_and_words_that_nobody_reads_are_told(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="exit 100\nmanage.py first_code"):
        reader.section(ACCOUNTS, "The first administrator")
    with pytest.raises(AssertionError, match=r"leaves no \['NOBODY'\] to its reader"):
        reader.section(ACCOUNTS, "The first administrator", words={"NOBODY": "x"})
    with pytest.raises(AssertionError, match="has no such commands"):
        reader.section(ACCOUNTS, "The first administrator", typed={"manage.py second_code": "x"})
    with pytest.raises(AssertionError, match="has no commands below"):
        reader.section("docs/admin/images.md", "Disk space on servers")

"""Each command of the documentation is run by a test, as it stands there.

A section's commands are run together: a test names page and heading, and types all it finds there. So a new command is
run without further ado, and a new section fails here until a test types it.
"""

from __future__ import annotations

import ast
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from markdown_it import MarkdownIt
from typer.core import TyperGroup
from typer.main import get_command

from berth.cli.app import app
from tests.support.people.documents import NOT_RUN, ROOT, Block, blocks, commands, pages, spans, split

LANGUAGES = {"sh", "ini", "json", "python", "text", "yaml"}
"""What a block may be: commands are `sh`; the others are files, programs, answers."""
PROGRAMS = re.compile(
    r"^\s*(\w+=\S* )?(sudo |docker |make |curl |git |berth |berth-node |manage\.py |pipx? |npm |ssh |systemctl |"
    r"\S*python3? |apt-get )"
)
TESTS = ROOT / "tests"
SOURCES = re.compile(r"`((?:client|examples|frontend|nodes|portal|scheduling|scripts|tests)/[\w./*-]+)`")
"""Files and folders of this repository that a page names."""


def asked() -> Iterator[tuple[str, str]]:
    """The sections whose commands some test types, by page and heading: `….section(page, heading, …)`."""
    for path in {*TESTS.rglob("test_*.py")} - {TESTS / "docs" / "test_reader.py"}:
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "section":
                words = [
                    one.value if isinstance(one, ast.Constant) else constants.get(one.id, "")
                    for one in node.args[:2]
                    if isinstance(one, ast.Constant | ast.Name)
                ]
                if len(words) == 2:
                    yield str(words[0]), str(words[1])


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks(page)]


def test_each_block_says_what_it_is_and_only_those_of_a_shell_hold_commands() -> None:
    unnamed = [f"{one.page}:{one.line}" for one in all_blocks() if one.language not in LANGUAGES]
    assert unnamed == []
    hidden = [
        f"{one.page}:{one.line}: {line}"
        for one in all_blocks()
        if one.language in {"ini", "text"}
        for line in one.text.splitlines()
        if PROGRAMS.match(line)
    ]
    assert hidden == []


def test_the_commands_of_each_section_are_typed_by_a_test() -> None:
    there = {(one.page, one.heading) for one in all_blocks() if one.language == "sh"}
    left = {
        (page, heading)
        for page, heading in there
        if any((page, command) not in NOT_RUN for command in commands(page, heading))
    }
    typed = set(asked())
    assert left - typed == set(), "sections whose commands no test types"
    assert {one for one in typed if one[0].endswith(".md")} - there == set(), "sections that are not there"


def test_what_is_not_run_is_little_and_still_there() -> None:
    all_of_them = {
        (page, command)
        for page, heading in {(one.page, one.heading) for one in all_blocks() if one.language == "sh"}
        for command in commands(page, heading)
    }
    assert NOT_RUN.keys() - all_of_them == set()
    assert len(NOT_RUN) <= 7
    assert len(all_of_them) > 100


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a  # why\nb", ["a", "b"]),
        ("# all of this\na \\\n  -b  # c\n\nd", ["a \\\n  -b", "d"]),
        ("for x in 1 2; do  # both\n  a $x\ndone\nb", ["for x in 1 2; do\n  a $x\ndone", "b"]),
        ("A=$(b -c '{\"d\": 1}' |\n  e)\nf", ["A=$(b -c '{\"d\": 1}' |\n  e)", "f"]),
    ],
)
def test_blocks_are_cut_where_a_shell_ends_a_command(text: str, found: list[str]) -> None:
    assert split(text) == found


def test_what_no_shell_understands_is_told() -> None:
    with pytest.raises(AssertionError, match="no shell understands this"):
        split("a\ngit clone <address of it> here && (cd here")


# ---------------------------------------------------------------- within sentences


def options(words: list[str]) -> set[str]:
    return {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}


def test_commands_within_sentences_are_those_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = get_command(app)
    assert isinstance(told, TyperGroup)
    wrong, seen = [], 0
    for page, (program, *words) in spans():
        name = words[0]
        if program == "manage.py" and re.fullmatch(r"[a-z_]+", name):
            known = name in get_commands() and flags_within(
                load_command_class(get_commands()[name], name).create_parser("manage.py", name)
            )
        elif program == "make" and re.fullmatch(r"[a-z-]+", name):
            known = name in targets and set()
        elif program == "berth" and re.fullmatch(r"[a-z-]+", name):
            known = name in told.commands and flags_of(told.commands[name], words[1:])
        else:
            continue
        seen += 1
        if known is False or options(words[1:]) - known:
            wrong.append(f"{page}: {program} {' '.join(words)}")
    assert wrong == []
    assert seen > 60


def flags_within(parser: ArgumentParser) -> set[str]:
    """The options of a management command, and of its own commands."""
    deeper = [one.choices for one in parser._actions if isinstance(one.choices, dict)]
    own = {flag for action in parser._actions for flag in action.option_strings}
    return own.union(*(flags_within(one) for choices in deeper for one in choices.values()))


def flags_of(command: Any, words: list[str]) -> set[str]:
    """The options of a command of `berth`, or of that one of its commands which the words name."""
    if isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command = command.commands[words[0]]
    return {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}


# ---------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """What headings of a page can be linked by, as GitHub makes it."""
    tokens = MarkdownIt().parse(page.read_text())
    return {
        re.sub(r"[^\w\- ]", "", after.content.lower()).replace(" ", "-")
        for one, after in zip(tokens, tokens[1:], strict=False)
        if one.type == "heading_open"
    }


def test_the_table_of_commands_has_all_that_make_help_lists() -> None:
    listed = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"^\| `make ([a-z-]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert len(listed) > 10
    assert told == listed


def test_every_link_between_the_pages_leads_somewhere() -> None:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]
    lost = []
    for page in files:
        for token in MarkdownIt().parse(page.read_text()):
            for child in token.children or ():
                href = str(child.attrGet("href") or "")
                path, _, anchor = href.partition("#")
                if child.type != "link_open" or "//" in href or href.startswith("mailto:"):
                    continue
                target = (page.parent / path).resolve() if path else page
                if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                    lost.append(f"{page.relative_to(ROOT)}: {href}")
    assert lost == []


def test_every_file_of_the_sources_that_a_page_names_is_there() -> None:
    named = {
        (page.relative_to(ROOT).as_posix(), name)
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for name in SOURCES.findall(page.read_text())
    }
    assert len(named) > 100
    assert sorted((page, name) for page, name in named if not [*ROOT.glob(name)]) == []


def test_the_map_leads_to_every_page() -> None:
    text = (ROOT / "docs/README.md").read_text()
    led = {(ROOT / "docs" / path).resolve() for path in re.findall(r"\]\(([\w./-]+\.md)\)", text)}
    of_docs = {(ROOT / page).resolve() for page in pages() if page not in {"README.md", "docs/README.md"}}
    assert of_docs - led == set()


def test_the_list_of_decisions_names_each_of_them_once() -> None:
    folder = ROOT / "docs" / "decisions"
    named = re.findall(r"^\| \[[\w-]+\]\(([\w-]+\.md)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in folder.glob("*.md") if path.name != "README.md")


def test_a_page_is_read_in_one_sitting() -> None:
    """At most 3,000 words: what is longer holds several tasks, each of which deserves a page."""
    words = {
        page.relative_to(ROOT).as_posix(): sum(bool(re.search(r"\w", word)) for word in page.read_text().split())
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    }
    assert {page: count for page, count in words.items() if count > 3000} == {}

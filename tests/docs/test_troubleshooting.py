"""What the pages of symptoms quote is what Berth says: each sentence stands in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.people.documents import ROOT

PAGES = [*ROOT.glob("docs/*/troubleshooting*.md")]
HOLE = "\N{HORIZONTAL ELLIPSIS}"
SAYING = ("portal", "nodes", "scheduling", "client/berth")
FILLED = re.compile(r"%\(\w+\)s|%%|{{ \w+ }}")
SHOWN = re.compile(r"{% blocktranslate [^%]*%}([^%]+){% endblocktranslate %}")
"""The sentences of a template."""


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Every text of a program, with a hole wherever something is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else HOLE for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def said() -> str:
    """All that Berth may say, a text a line."""
    found = [
        text.replace("\n", " ")
        for folder in SAYING
        for path in (ROOT / folder).rglob("*.py")
        for text in texts_of(ast.parse(path.read_text()))
        if " " in text
    ]
    for path in (ROOT / "frontend" / "templates").rglob("*.html"):
        found.extend(SHOWN.findall(path.read_text()))
    filled = (FILLED.sub(lambda hole: "%" if hole[0] == "%%" else HOLE, text) for text in found)
    return "\n".join(text.replace("`", "") for text in filled)


def symptoms() -> Iterator[str]:
    """The first cell of each row of the tables of what one sees."""
    for page in PAGES:
        for table in re.findall(r"^\| you see \|.*\n\| ---.*\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE):
            yield from (line.split("|")[1] for line in table.splitlines())


def quoted() -> list[str]:
    """The sentences that they quote, without what stands there for names and numbers at either end."""
    return [sentence.strip(f" {HOLE}") for cell in symptoms() for sentence in re.findall(r"\*([^*]+)\*", cell)]


def is_said(sentence: str) -> bool:
    parts = [re.escape(part) for part in sentence.split(HOLE)]
    return re.search(f"[^\n]*?{HOLE}[^\n]*?".join(parts), said()) is not None


def test_each_sentence_of_the_pages_is_one_that_berth_says() -> None:
    sentences = quoted()
    assert len(sentences) > 60
    assert [sentence for sentence in sentences if not is_said(sentence)] == []


def test_a_sentence_that_nobody_says_is_found_out() -> None:
    assert not is_said("Nothing listens where the moon should")
    assert is_said(f"Nothing listens where {HOLE} should")

"""The commands of the documentation as its readers have them: what stands in blocks marked `sh`, cut into commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[3]

NOT_RUN = {
    (
        "README.md",
        "sudo apt-get update && sudo apt-get install git make python3-venv ca-certificates",
    ): "scripts/fresh-try runs it on systems of its own",
    ("README.md", "make test"): "this run is it",
    ("CONTRIBUTING.md", "BERTH_TEST_SKIP=docker,browser make test"): "this run is it",
    ("CONTRIBUTING.md", ".venv/bin/python -m pytest tests/integration/jobs"): "a part of this run",
    (
        "CONTRIBUTING.md",
        "BERTH_TEST_DATABASE=sqlite .venv/bin/python -m pytest tests/integration/jobs",
    ): "a part of this run",
    (
        "CONTRIBUTING.md",
        "BERTH_TEST_PICTURES=1 .venv/bin/python -m pytest tests/e2e/browser/test_looks.py",
    ): "a part of this run",
    (
        "docs/user/openpai.md",
        "npm install --global @microsoft/openpai-js-sdk",
    ): "the same package is installed from a lock file, beside the tests of it",
}
"""Commands that no test runs, each with the reason. `tests/docs/test_register.py` counts them."""


@dataclass(frozen=True)
class Block:
    """A fenced block; `heading` is the one it stands below, `line` that of its first fence."""

    page: str
    heading: str
    line: int
    language: str
    text: str


def pages() -> list[str]:
    """The pages whose commands are held: everything that a reader is sent to, but the decisions."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
    found += [*ROOT.glob("docs/admin/*.md"), *ROOT.glob("docs/user/*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Every fenced block of a page, also of those within lists."""
    return tuple(_blocks(page))


def _blocks(page: str) -> Iterator[Block]:
    heading, comes = "", False
    for token in MarkdownIt().parse((ROOT / page).read_text()):
        if token.type == "inline" and comes:
            heading = token.content
        comes = token.type == "heading_open"
        if token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            yield Block(page, heading, line, token.info.strip(), token.content)


def commands(page: str, heading: str) -> list[str]:
    """The commands below this heading and no other, each as it stands there but for a comment at its end.
    Raises AssertionError where there are none."""
    found = [
        one for block in blocks(page) if (block.heading, block.language) == (heading, "sh") for one in split(block.text)
    ]
    assert found, f"{page} has no commands below {heading!r}"
    return found


def spans() -> Iterator[tuple[str, list[str]]]:
    """Commands that stand within sentences and tables, as page and words."""
    for page in pages():
        for token in MarkdownIt().enable("table").parse((ROOT / page).read_text()):
            for child in token.children or ():
                if child.type == "code_inline" and " " in child.content:
                    yield page, child.content.replace("\\|", "|").split()


def split(text: str) -> list[str]:
    """A block's commands: a line with those that a shell needs to understand it.
    Raises AssertionError where it does not understand the rest at all."""
    found, pending = [], ""
    for line in text.splitlines():
        if not pending and not line.strip():
            continue
        pending += f"{line}\n"
        if _whole(pending):
            found.append(_without_comments(pending))
            pending = ""
    assert not pending, f"no shell understands this:\n{pending}"
    return [command for command in found if command]


@cache
def _whole(text: str) -> bool:
    if text.endswith("\\\n"):
        return False
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


def _without_comments(text: str) -> str:
    """A comment begins at the start of a line or after two spaces; none of our commands has that within quotes."""
    lines = [line if not line.startswith("#") else "" for line in text.splitlines()]
    return "\n".join(line.split("  #")[0].rstrip() for line in lines if line.strip())

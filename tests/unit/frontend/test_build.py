"""What Vite has built, as a browser gets it."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DIST = ROOT / "frontend" / "dist"
FIRST_LOAD = 300_000


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return dict(json.loads((DIST / "manifest.json").read_text()))


def first_load(manifest: dict[str, Any], entry: str) -> set[str]:
    """The files without which no page is whole: the entry, its styles and what it imports at once."""
    chunk = manifest[entry]
    files = {chunk["file"], *chunk.get("css", [])}
    return files.union(*(first_load(manifest, name) for name in chunk.get("imports", [])))


def test_the_first_page_loads_less_than_300_kb(manifest: dict[str, Any]) -> None:
    files = first_load(manifest, "src/main.ts") | first_load(manifest, "src/theme.ts")
    assert sum(len(gzip.compress((DIST / name).read_bytes())) for name in files) < FIRST_LOAD


@pytest.mark.parametrize(
    "part", ["src/charts/chart.ts", "src/job_file/submit.ts", "src/logs/viewer.ts", "src/terminal/terminal.ts"]
)
def test_charts_editor_log_viewer_and_terminal_are_loaded_only_where_they_are_needed(
    manifest: dict[str, Any], part: str
) -> None:
    assert manifest[part]["isDynamicEntry"]
    assert manifest[part]["file"] not in first_load(manifest, "src/main.ts")


def test_nothing_is_fetched_from_elsewhere() -> None:
    styles = "".join(path.read_text() for path in DIST.rglob("*.css"))
    assert "url(http" not in styles
    assert "@import" not in styles


def test_the_lock_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "frontend" / "package-lock.json").read_text()


def test_of_the_style_sheet_only_what_pages_use_is_sent(manifest: dict[str, Any]) -> None:
    (sheet,) = manifest["src/main.ts"]["css"]
    assert len(gzip.compress((DIST / sheet).read_bytes())) < 30_000


PUT_TOGETHER = (
    re.compile(r"""class="[^"]*?([\w-]+-)\{[{%]"""),
    re.compile(r"""class(?:Name|List)[^\\n`]*`[^`]*?([\w-]+-)\$\{"""),
)
OURS = {"is-", "is-task-", "map-", "sum-", "mark-"}


def test_class_names_that_are_put_together_are_ours_alone() -> None:
    """Of Tabler a class is kept where its name stands as a word; one that is put together would be lost."""
    sources = [*(ROOT / "frontend" / "templates").rglob("*.html"), *(ROOT / "frontend" / "src").rglob("*.ts")]
    found = {begin for path in sources for rule in PUT_TOGETHER for begin in rule.findall(path.read_text())}
    assert "is-" in found
    assert found - OURS == set()


def test_scripts_and_styles_are_there_by_brotli_too(manifest: dict[str, Any]) -> None:
    for name in first_load(manifest, "src/main.ts"):
        packed = (DIST / f"{name}.br").stat().st_size
        assert packed < len(gzip.compress((DIST / name).read_bytes()))

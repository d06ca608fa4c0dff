"""What Vite has built, as a browser gets it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
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
    "part", ["src/charts/chart.ts", "src/editor/submit.ts", "src/logs/viewer.ts", "src/terminal/terminal.ts"]
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

"""The pictures of the documentation: each is there, small, and shown somewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
SHOWN = re.compile(r"!\[[^\]]+\]\((?!https?:)([^)\s]+)\)")


def test_every_picture_that_the_docs_show_is_there_and_each_of_pictures_is_shown_and_small() -> None:
    shown = {
        (page.parent / name).resolve()
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for name in SHOWN.findall(page.read_text())
    }
    assert [path for path in shown if not path.is_file()] == []
    kept = set(PICTURES.iterdir())
    assert kept - shown == set()
    sizes = {path.name: path.stat().st_size for path in kept}
    assert {name for name, size in sizes.items() if size > 60_000} == set()
    assert sum(sizes.values()) <= 2_000_000

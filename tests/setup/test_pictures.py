"""The pictures of the documentation: each is there, small, and shown somewhere."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
SHOWN = re.compile(r"""!\[[^\]]+\]\((?!https?:)([^)\s]+)\)|<img [^>]*src="(?!https?:)([^"]+)"|srcset="([^"]+)\"""")
MODES = re.compile("-(dark|narrow)$")


def test_every_picture_that_the_docs_show_is_there_and_each_page_of_pictures_is_shown_and_small() -> None:
    shown = {
        (page.parent / "".join(names)).resolve()
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for names in SHOWN.findall(page.read_text())
    }
    assert [path for path in shown if not path.is_file()] == []
    kept = set(PICTURES.iterdir())
    pages = {MODES.sub("", path.stem) for path in kept}
    assert pages - {path.stem for path in shown} == set()
    assert {f"{page}{mode}.webp" for page in pages for mode in ("", "-dark", "-narrow")} == {one.name for one in kept}
    sizes = {path.name: path.stat().st_size for path in kept}
    assert {name for name, size in sizes.items() if size > 60_000} == set()
    assert sum(sizes.values()) <= 2_000_000

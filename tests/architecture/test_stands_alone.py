"""The repository stands alone: no test, script or page reads or names a folder beside the clone."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BESIDE = re.compile(r"\.\./shared|[\"'/`]shared[\"'/`]")
KNOWS = {"tests/support/run/facts.py", "tests/architecture/test_stands_alone.py"}
"""Where the originals of `tests/data` are looked for, to be compared with; this file."""


def written() -> list[Path]:
    folders = [path for name in ("tests", "scripts", "docs", ".ci") for path in (ROOT / name).rglob("*")]
    kept = [path for path in (*folders, *ROOT.iterdir()) if path.suffix in {"", ".py", ".md", ".sh", ".toml", ".yaml"}]
    return [path for path in kept if path.is_file() and not {"node_modules", "pictures", "data"} & {*path.parts}]


def test_nothing_but_the_comparison_with_the_originals_names_a_folder_beside_the_clone() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in written() if BESIDE.search(path.read_text(errors="replace"))}
    assert names - KNOWS == set()
    assert "tests/support/run/facts.py" in names

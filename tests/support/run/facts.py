"""What others recorded, measured or published, in `tests/data`; and the originals, where somebody has them beside the
clone to compare with."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
JOB_FILES = sorted((DATA / "job_files").glob("*.yaml"))


def read_json(name: str) -> Any:
    """A file of `tests/data`, unpacked where it is packed."""
    content = (DATA / name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


@cache
def hived_cases() -> Any:
    return read_json("hived/cases.json.gz")


@cache
def hived_streams() -> Any:
    return read_json("hived/streams.json.gz")


def job_text(name: str) -> str:
    return (DATA / "job_files" / f"{name}.yaml").read_text()


def originals() -> Path | None:
    """The folder with the originals: BERTH_TEST_ORIGINALS, else the one beside the clone; `none` hides it."""
    named = os.environ.get("BERTH_TEST_ORIGINALS", "") or str(ROOT.parent / "shared")
    return Path(named) if named != "none" and Path(named, "openpai").is_dir() else None

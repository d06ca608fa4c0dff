"""What a folder takes on the disk."""

import subprocess
from pathlib import Path

import pytest

from nodes.agent.disk.usage import folder_bytes
from nodes.agent.runtimes.base import RuntimeUnavailable


def test_folders_within_each_other_by_the_thousand_are_counted(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(1_200):
        folder /= "d"
        folder.mkdir()
    (folder / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "away").symlink_to("/usr")
    try:
        assert 100_000 <= folder_bytes(tmp_path) < 200_000
    finally:
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # deeper than pytest can


def test_counting_ends_when_it_has_taken_too_long_also_within_one_folder(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}").touch()
    left = iter(range(10))

    def patience() -> None:
        if next(left, None) is None:
            raise RuntimeUnavailable("too long")

    with pytest.raises(RuntimeUnavailable):
        folder_bytes(tmp_path, patience)

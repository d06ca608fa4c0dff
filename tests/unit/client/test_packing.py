"""What of a folder is packed, and that the same files always make the same archive."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from berth import FolderTooLarge, Misused
from berth.model.jobs import CodeLimits
from berth.packing import pack
from nodes.protocol.packed import Bounds, packed_check

LIMITS = CodeLimits(size=1 << 20, unpacked=2 << 20, entries=50)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    written(made, {"train.py": "print(1)\n", "lib/words.py": "x = 1\n", ".git/config": "[core]\n"})
    (made / "train.py").chmod(0o755)
    return made


def written(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def names(folder: Path) -> list[str]:
    with pack(folder, LIMITS) as archive, tarfile.open(fileobj=archive.file, mode="r:gz") as found:
        return found.getnames()


def test_the_same_files_make_the_same_archive_whenever_and_wherever_they_lie(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    written(other, {"lib/words.py": "x = 1\n", "train.py": "print(1)\n"})
    (other / "train.py").chmod(0o775)
    os.utime(other / "train.py", (1, 1))
    with pack(folder, LIMITS) as one, pack(other, LIMITS) as same:
        assert one.id == same.id
        assert packed_check(one.file, Bounds(1 << 20, 10)).entries == 3, "as the server takes it"
    (other / "train.py").chmod(0o644)
    with pack(folder, LIMITS) as one, pack(other, LIMITS) as changed:
        assert one.id != changed.id


def test_what_ignore_files_name_stays_out_by_gits_rules(folder: Path) -> None:
    written(
        folder,
        {
            ".gitignore": "*.log\n/data/\nbuild\n!keep.log\n",
            ".berthignore": "notes.md\n!data/\n",
            "a.log": "", "keep.log": "", "lib/b.log": "", "notes.md": "", "data/small": "", "lib/data/kept": "",
            "build/out": "", "lib/build": "",
            "lib/.gitignore": "!b.log\nwords.*\n", "vendor/.git": "gitdir: elsewhere",
        },
    )  # fmt: skip
    assert names(folder) == [
        ".berthignore", ".gitignore", "data/small", "keep.log", "lib/.gitignore", "lib/b.log", "lib/data/kept",
        "train.py",
    ]  # fmt: skip


def test_links_inside_are_kept_and_those_that_lead_out_are_named(folder: Path) -> None:
    (folder / "lib" / "main").symlink_to("../train.py")
    assert "lib/main" in names(folder)
    (folder / "lib" / "python").symlink_to("/usr/bin/python3")
    with pytest.raises(Misused, match=r"lib/python leads out of the folder, to /usr/bin/python3: .*\.berthignore"):
        pack(folder, LIMITS)
    (folder / "lib" / "python").unlink()
    (folder / "lib" / "up").symlink_to("../../project/train.py")
    with pytest.raises(Misused, match="lib/up leads out"):
        pack(folder, LIMITS)


def test_a_folder_that_is_too_large_names_its_largest_files(folder: Path) -> None:
    (folder / "model.bin").write_bytes(os.urandom(1 << 20))
    with pytest.raises(FolderTooLarge, match=r"packed it takes 1.0 MB.* 1.0 MB is the most.*model.bin \(1.0 MB\)"):
        pack(folder, LIMITS)
    (folder / "zeros").write_bytes(bytes(1 << 20))
    with pytest.raises(FolderTooLarge, match=r"its files take 2.0 MB") as refused:
        pack(folder, LIMITS)
    assert refused.value.largest[0][1] == 1 << 20
    written(folder, {f"many/{number}": "" for number in range(50)})
    with pytest.raises(FolderTooLarge, match="holds 54 files, and 50 is the most"):
        pack(folder, LIMITS)


def test_what_cannot_be_packed_is_said_before_anything_is_sent(folder: Path, tmp_path: Path) -> None:
    for wrong, said in ((tmp_path / "absent", "not there"), (folder / "train.py", "no folder")):
        with pytest.raises(Misused, match=said):
            pack(wrong, LIMITS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Misused, match="no file"):
        pack(tmp_path / "empty", LIMITS)
    os.mkfifo(folder / "pipe")
    with pytest.raises(Misused, match="neither a file nor a link"):
        pack(folder, LIMITS)

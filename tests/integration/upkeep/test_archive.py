"""The file of a backup: whole, or known not to be before anything is done with it."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from portal.upkeep.archive import ArchiveInvalid, ArchiveReader, ArchiveWriter
from tests.support.services.disk import full_disk


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "backup.tar"
    with ArchiveWriter(path) as archive:
        archive.add("backup.json", b"{}")
        archive.add_file("database/x.jsonl.gz", io.BytesIO(b"rows" * 50_000))
    return path


def test_what_was_put_in_comes_out(file: Path) -> None:
    archive = ArchiveReader(file)
    archive.check()
    found = {name: content.read() for name, content in archive.entries()}
    assert found["backup.json"] == b"{}"
    assert found["database/x.jsonl.gz"] == b"rows" * 50_000
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_backup_that_was_broken_off_leaves_the_last_one(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(FileNotFoundError), ArchiveWriter(file) as archive:
        archive.add_file("backup.json", (file.parent / "gone").open("rb"))
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_what_gets_another_name_while_its_folder_is_read_is_in_it_and_what_goes_is_no_obstacle(tmp_path: Path) -> None:
    """As a curve does that is packed when its task has ended."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    for name in ("going", "growing", "staying"):
        (folder / name).write_bytes(name.encode())

    def meanwhile(path: Path) -> bool:
        if path.name == "growing":
            path.rename(folder / "grown")
        if path.name == "going":
            path.unlink()
        return True

    path = tmp_path / "backup.tar"
    with ArchiveWriter(path) as archive:
        assert archive.add_folder("metrics", folder, wanted=meanwhile) == 2
    ArchiveReader(path).check()
    found = {name: content.read() for name, content in ArchiveReader(path).entries()}
    assert (found["metrics/grown"], found["metrics/staying"]) == (b"growing", b"staying")
    assert len(found) == 3


def test_two_at_once_take_nothing_from_each_other(tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    with ArchiveWriter(path) as first:
        first.add("backup.json", b"first")
        second = ArchiveWriter(path)
        second.__enter__()
        second.add("backup.json", b"second")
    ArchiveReader(path).check()
    assert [content.read() for _, content in ArchiveReader(path).entries()][0] == b"first"
    second.__exit__(None)
    ArchiveReader(path).check()
    assert [content.read() for _, content in ArchiveReader(path).entries()][0] == b"second"
    assert [*tmp_path.iterdir()] == [path]


def test_one_that_was_killed_is_swept_a_day_later(tmp_path: Path) -> None:
    left, fresh, other = (tmp_path / name for name in (".b.tar.x1.part", ".b.tar.x2.part", ".c.tar.x1.part"))
    for one in (left, fresh, other):
        one.touch()
    for one in (left, other):
        os.utime(one, (0, 0))
    with ArchiveWriter(tmp_path / "b.tar"):
        pass
    assert sorted(one.name for one in tmp_path.iterdir()) == [fresh.name, other.name, "b.tar"]


@pytest.mark.docker  # as root, who may mount
@pytest.mark.parametrize("size", [64, 100_000])
def test_a_full_disk_keeps_nothing_of_it_and_leaves_the_last_one(tmp_path: Path, size: int) -> None:
    """Also where only what is written at the end finds no room."""
    with full_disk(tmp_path / "disk") as folder:
        path = folder / "backup.tar"
        path.touch()
        with pytest.raises(OSError, match="No space"), ArchiveWriter(path) as archive:
            archive.add("backup.json", b"x" * size)
        assert sorted(one.name for one in folder.iterdir()) == ["backup.tar", "ballast"]
        assert path.stat().st_size == 0


def test_what_somebody_laid_under_its_name_is_not_written_to(tmp_path: Path) -> None:
    """As everybody can in a folder of everybody's: a link, or a file that they may read."""
    path, elsewhere = tmp_path / "backup.tar", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    (tmp_path / ".backup.tar.part").symlink_to(elsewhere)
    for _ in range(2):
        with ArchiveWriter(path) as archive:
            archive.add("keys/sealing.key", b"secret")
        assert elsewhere.read_bytes() == b""
        assert path.stat().st_mode & 0o777 == 0o600
        (tmp_path / ".backup.tar.part").touch(0o666)


@pytest.mark.parametrize("part", [0.001, 0.01, 0.3, 0.6, 0.9])
def test_a_file_that_was_cut_off_is_told_so(file: Path, part: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(ArchiveInvalid):
        ArchiveReader(file).check()


def test_a_file_that_was_cut_off_in_its_sums_is_told_so(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b'{"backup.json"') + 9])
    with pytest.raises(ArchiveInvalid, match="cut off"):
        ArchiveReader(file).check()


def test_a_changed_byte_is_found(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[whole.index(b"rowsrows") + 999] ^= 1
    file.write_bytes(whole)
    with pytest.raises(ArchiveInvalid, match="changed or damaged: database/x.jsonl.gz"):
        ArchiveReader(file).check()


def test_what_is_no_tar_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"SQLite format 3\0" * 100)
    with pytest.raises(ArchiveInvalid, match="is no backup"):
        ArchiveReader(path).check()


@pytest.mark.parametrize("name", ["../keys/django.key", "/etc/passwd", "keys/../../x", "other/x"])
def test_an_entry_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ArchiveInvalid, match="which no backup has"):
        list(ArchiveReader(path).entries())


def test_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    entry = tarfile.TarInfo("keys/django.key")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/shadow"
    with tarfile.open(path, "w") as tar:
        tar.addfile(entry)
    with pytest.raises(ArchiveInvalid, match="which no backup has"):
        list(ArchiveReader(path).entries())

"""`manage.py backup` and `restore`, as an operator types them: a made-up cluster goes from database to database."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import psycopg
import pytest

from portal.upkeep.archive import ArchiveReader
from tests.support.cluster.played import Call, Done
from tests.support.cluster.restored_portal import Portal
from tests.support.people.reader import reader_of
from tests.support.services.disk import full_disk
from tests.support.services.migrated import postgres_copy, sqlite_copy
from tests.support.services.postgres import PostgresServer
from tests.support.services.services import Services

SMALL = ["--finished", "40", "--waiting", "10", "--running", "4", "--users", "5", "--vcs", "2", "--nodes", "4"]
ALL = "keys: 3 files, code: 1 files, logs: 1 files, metrics: 2 files"
NOT_THE_SAME = {"data_folder.backup", "data_folder.datafolder", "data_folder.restore", "scheduler.cyclelease"}
"""What a restore notes of itself, whose data folder is the database's, and who runs the scheduler."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, services: Services) -> Portal:
    folder = tmp_path_factory.mktemp("filled")
    portal = Portal(folder, sqlite_copy(folder / "berth.sqlite3"), services)
    portal.module("tests.benchmarks.fill", *SMALL)
    assert portal.module("tests.integration.upkeep.carrying").startswith("sha256:")
    (folder / "code" / "uploading" / "half").write_bytes(b"half")
    segment = folder / "logs" / "0a" / "0a-log" / "segment.rec.gz"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"lines")
    (segment.parent / "writing-1").write_bytes(b"half")
    return portal


@pytest.fixture(scope="module")
def backups(filled: Portal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands of the page make and put back, into an empty database and again in its place."""
    folder = tmp_path_factory.mktemp("backups")
    new = Portal(folder / "new", "")

    def manage(call: Call) -> Done:
        portal = filled if call.words[0] == "backup" else new
        return 0, portal.manage(*call.words), ""

    with reader_of(folder, programs={"manage.py": manage}) as reader:
        said = reader.section("docs/admin/backup.md", "With manage.py", words={"/backups": str(folder)})
    made, some, *restored = said.values()
    assert f"rows, {ALL}." in made
    assert "rows, code: 1 files, metrics: 2 files." in some
    assert [f"rows, {ALL}." in text for text in restored] == [True, True]
    return folder


@pytest.fixture(scope="module")
def backup(backups: Path) -> Path:
    return backups / "berth.tar"


def settled(rows: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    """The rows as a restore leaves them."""
    for row in rows["jobs.taskattempt"]:
        if row["removed_at"] is None and row["phase"] != "remove":
            row |= {"log_end": row["archived_to"], "log_complete": False}
    return {name: several for name, several in rows.items() if name not in NOT_THE_SAME}


def files_of(portal: Portal) -> dict[str, bytes]:
    """All that lies beside its rows, by where it lies."""
    paths = [path for part in ("keys", "code", "logs", "metrics") for path in (portal.folder / part).rglob("*")]
    return {str(path.relative_to(portal.folder)): path.read_bytes() for path in paths if path.is_file()}


def indexes_of(url: str) -> list[tuple[object, ...]]:
    """Every index of Berth's tables."""
    sql = "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


def test_each_row_comes_back_from_sqlite_to_postgresql_and_to_sqlite_again(
    filled: Portal, backup: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    before = settled(filled.rows(tmp_path / "before.tar"))
    assert len(before["jobs.job"]) == 54
    assert len(before["code.codefolder"]) == len(before["code.codeupload"]) == 1
    whole = {name: content for name, content in files_of(filled).items() if content != b"half"}
    assert len(whole) == 7
    file = backup
    there = postgres_copy(postgres, "upkeep")
    indexes = indexes_of(there)
    with psycopg.connect(there) as connection:
        connection.execute("CREATE TABLE hardware_oftomorrow (id int)")  # of the release that did not do
    new = postgres.create_database("upkeep_new")
    for number, url in enumerate((new, there, f"sqlite:///{tmp_path}/again.sqlite3")):
        portal = Portal(tmp_path / f"portal{number}", url)
        said = portal.manage("restore", str(file), "--replace")
        assert f"rows, {ALL}." in said
        file = tmp_path / f"{number}.tar"
        after = portal.rows(file)
        assert settled(after) == before
        assert after["data_folder.datafolder"] == [{"id": 1, "mark": (portal.folder / "folder.id").read_text().strip()}]
        assert files_of(portal) == whole
        assert url.startswith("sqlite") or indexes_of(url) == indexes
    with psycopg.connect(there) as connection:
        assert connection.execute("SELECT to_regclass('hardware_oftomorrow')").fetchone() == (None,)


def test_what_is_left_out_is_not_in_it(backups: Path) -> None:
    names = {name.split("/")[0] for name, _ in ArchiveReader(backups / "rows.tar").entries()}
    assert names == {"backup.json", "database", "code", "metrics", "sums.json"}


def test_what_cannot_be_restored_is_told_in_one_sentence_and_nothing_is_touched(
    filled: Portal, backup: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "there"
    shutil.copytree(filled.folder, copy)
    there = Portal(copy, f"sqlite:///{copy}/berth.sqlite3")
    fresh = Portal(tmp_path / "new", "")

    def refused(portal: Portal, words: str, path: Path = backup, **more: str) -> None:
        said = portal.manage("restore", str(path), status=1, **more)
        assert "Nothing was restored." in said
        assert words in said, said
        assert "Traceback" not in said

    refused(there, "it has 5 users and 54 jobs")
    refused(fresh, "Set BERTH_CLUSTER=berth", BERTH_CLUSTER="other")
    refused(fresh, "BERTH_PORTAL_KEY is set to another key", BERTH_PORTAL_KEY="A" * 43 + "=")
    refused(fresh, "No such file", tmp_path / "none.tar")
    cut = tmp_path / "cut.tar"
    cut.write_bytes(backup.read_bytes()[:-20_000])
    refused(fresh, "cut off", cut)
    assert len(there.rows(tmp_path / "still.tar")["jobs.job"]) == 54
    assert "rows" in there.manage("restore", str(backup), "--replace")


def test_keys_of_before_stay_until_all_else_is_there(backup: Path, tmp_path: Path) -> None:
    portal = Portal(tmp_path / "other", "")
    portal.manage("migrate", "--verbosity", "0")
    keys = portal.folder / "keys"

    def found() -> dict[str, str]:
        return {path.name: path.read_text() for path in keys.iterdir()}

    before = found()
    assert len(before) == 3
    shutil.rmtree(portal.folder / "logs", ignore_errors=True)
    (portal.folder / "logs").write_text("no folder")
    assert "Nothing was restored." in portal.manage("restore", str(backup), "--replace", status=1)
    assert found() == before
    (portal.folder / "logs").unlink()
    portal.manage("restore", str(backup), "--replace")
    assert before.keys() == found().keys()
    assert not set(before.values()) & set(found().values())


def test_curves_of_before_stay_until_all_else_is_there(tmp_path: Path, services: Services) -> None:
    folder = tmp_path / "portal"
    folder.mkdir()
    portal = Portal(folder, sqlite_copy(folder / "berth.sqlite3"), services)
    curves = [folder / "metrics" / name / f"{name}000000.points" for name in ("0a", "5b", "ff")]
    for curve in curves:
        curve.parent.mkdir(parents=True)
        curve.write_text("hour 1")
    portal.manage("backup", str(tmp_path / "berth.tar"))

    grown, gone, blocked = curves
    grown.write_text("hours 1 to 90")
    gone.unlink()
    blocked.unlink()
    blocked.parent.rmdir()
    blocked.parent.write_text("no folder")
    said = portal.manage("restore", str(tmp_path / "berth.tar"), "--replace", status=1)
    assert "Nothing was restored." in said
    assert grown.read_text() == "hours 1 to 90"
    assert {path for path in (folder / "metrics").rglob("*") if path.is_file()} == {grown, blocked.parent}

    blocked.parent.unlink()
    portal.manage("restore", str(tmp_path / "berth.tar"), "--replace")
    assert [curve.read_text() for curve in curves] == ["hour 1"] * 3
    assert {path for path in (folder / "metrics").rglob("*") if path.is_file()} == set(curves)


def test_a_number_of_a_job_or_an_account_is_given_once_also_where_a_backup_is_put_back_twice(
    backup: Path, tmp_path: Path
) -> None:
    portal = Portal(tmp_path, "")

    def last(statement: str = "", table: str = "jobs_job") -> int:
        with contextlib.closing(sqlite3.connect(tmp_path / "berth.sqlite3")) as database:
            database.executescript(statement)
            return int(database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table]).fetchone()[0])

    portal.manage("restore", str(backup))
    first, accounts = last(), last(table="accounts_user")
    # A job that was submitted then, and an account that was made.
    submitted = last(
        "CREATE TEMP TABLE one AS SELECT * FROM jobs_job ORDER BY id DESC LIMIT 1;"
        f"UPDATE one SET id = {first + 1}, run = run + 1000; INSERT INTO jobs_job SELECT * FROM one;"
        "CREATE TEMP TABLE who AS SELECT * FROM accounts_user ORDER BY id DESC LIMIT 1;"
        f"UPDATE who SET id = {accounts + 1}, username = 'since', uid = NULL;"
        "INSERT INTO accounts_user SELECT * FROM who;"
    )
    assert submitted == first + 1
    portal.manage("restore", str(backup), "--replace")
    assert last() > submitted
    assert last(table="accounts_user") > accounts + 1, "by which its uid goes"


def test_on_sqlite_others_write_while_a_backup_reads_and_it_sees_one_moment(tmp_path: Path) -> None:
    portal = Portal(tmp_path, sqlite_copy(tmp_path / "berth.sqlite3"))
    assert json.loads(portal.module("tests.integration.upkeep.beside")) == [0, 0, 1]


def test_where_nothing_can_be_written_no_backup_is_claimed(filled: Portal, tmp_path: Path) -> None:
    said = filled.manage("backup", str(tmp_path / "no-such-folder" / "x.tar"), status=1)
    assert "cannot be written (No such file or directory): name a file" in said


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_is_the_backups_own(filled: Portal, tmp_path: Path) -> None:
    with full_disk(tmp_path / "full") as full:
        said = filled.manage("backup", str(full / "x.tar"), status=1)
    assert "cannot be written (No space left on device): make room, or name a file on another disk.\n" in said
    assert str(full) in said

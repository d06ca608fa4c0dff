"""Job folders go when their time is over: which are due, who is asked, what is said of them until then and after."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from tests.support.run.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.files.conftest import Running

pytestmark = pytest.mark.django_db(transaction=True)


def ended(cluster: Running, *, days: float = 31) -> None:
    """Its job has ended so many days ago, as its folder's lease says too."""
    from portal.jobs.models import Job, TaskAttempt

    if cluster.job.ended_at is None:
        cluster.node.finish()
        cluster.world.settle()
    at = timezone.now() - timedelta(days=days)
    Job.objects.filter(pk=cluster.job.pk).update(ended_at=at)
    TaskAttempt.objects.filter(task__job=cluster.job, removed_at=None).update(removed_at=at)
    cluster.job.refresh_from_db()
    lease(cluster.folder, at)


def lease(folder: Path, at: datetime) -> None:
    file = folder / ".berth" / "lease.worker.0"
    file.parent.mkdir(exist_ok=True)
    file.write_text("4f1d8a3e 17\n")
    for path in (file, file.parent):
        os.utime(path, (at.timestamp(),) * 2)


def kept(cluster: Running) -> Any:
    from portal.files.models import KeptFolder

    return KeptFolder.objects.get(job=cluster.job)


def due() -> int:
    from portal.files.selectors import folders_due

    return len(folders_due(now=timezone.now(), limit=10))


def expire(now: datetime | None = None) -> int:
    from portal.files.deleting import folders_expire

    return folders_expire(now=now or timezone.now())


def asked(cluster: Running, now: datetime | None = None) -> Any:
    """Asks as beat does, but that no time goes by in between; what is known then."""
    from portal.files.models import KeptFolder

    KeptFolder.objects.update(next_at=None)
    expire(now)
    return kept(cluster)


def until_gone(cluster: Running) -> None:
    wait_until(lambda: asked(cluster).deleted_at, "the folder's end")


def until_failed(cluster: Running, now: datetime, failures: int = 1) -> Any:
    """What is known of a folder that was to be deleted and was not."""
    return wait_until(lambda: (row := asked(cluster, now)).failures == failures and row, f"failure {failures}")


# ------------------------------------------------------------ where it is


def test_where_the_folder_is_is_written_down_at_the_start_and_stays_whatever_settings_become(cluster: Running) -> None:
    from portal.storages.models import Storage

    assert (kept(cluster).path, kept(cluster).storage.name) == (str(cluster.folder), "jobs")
    Storage.objects.update(jobs=False)
    Storage.objects.create(name="other", root="/mnt/other", jobs=True)
    from portal.files.selectors import job_folder

    assert job_folder(job=cluster.job).mount.source == str(cluster.folder)


# ------------------------------------------------------------ what is due


def test_a_folder_is_due_so_many_days_after_its_jobs_end(cluster: Running, settings: Any) -> None:
    assert due() == 0
    found = {}
    for days in (1, 29.9, 30.1, 400):
        ended(cluster, days=days)
        found[days] = due()
    assert found == {1: 0, 29.9: 0, 30.1: 1, 400: 1}
    settings.JOB_FOLDER_DAYS = 500
    assert due() == 0
    settings.JOB_FOLDER_DAYS = 0
    assert due() == 0


def of_job(cluster: Running) -> Any:
    from portal.jobs.models import TaskAttempt

    return TaskAttempt.objects.filter(task__job=cluster.job)


def a_container_is_there(cluster: Running) -> None:
    of_job(cluster).update(removed_at=None)


def a_server_was_taken_out(cluster: Running) -> None:
    from portal.hardware.models import Node

    Node.objects.update(removed_at=cluster.job.ended_at)


def the_job_is_not_over(cluster: Running) -> None:
    from portal.jobs.models import Job

    Job.objects.update(state="running")


def another_job_has_the_path(cluster: Running) -> None:
    from portal.files.models import KeptFolder

    other = cluster.world.submit(name="other")
    KeptFolder.objects.create(job=other, storage=kept(cluster).storage, path=kept(cluster).path)


def the_storage_is_forgotten(cluster: Running) -> None:
    from portal.storages.models import Storage

    Storage.objects.all().delete()


def the_storage_is_elsewhere(cluster: Running) -> None:
    from portal.storages.models import Storage

    Storage.objects.update(root=f"{cluster.root}2")


def it_began_before_there_were_rows(cluster: Running) -> None:
    kept(cluster).delete()


def it_is_deleted(cluster: Running) -> None:
    from portal.files.models import KeptFolder

    KeptFolder.objects.update(deleted_at=timezone.now())


def it_is_asked_again_later(cluster: Running) -> None:
    from portal.files.models import KeptFolder

    KeptFolder.objects.update(next_at=timezone.now() + timedelta(minutes=1))


def a_node_has_unknown_containers(cluster: Running) -> None:
    from portal.hardware.models import Node

    Node.objects.update(strangers=strangers(timezone.now()))


def strangers(seen_at: datetime) -> dict[str, Any]:
    return {"4f1d8a3e": {"seen_at": seen_at.isoformat(), "gpus": []}}


def another_node(cluster: Running, **told: Any) -> None:
    """It has unknown containers; the job never ran there."""
    from portal.hardware.models import Node

    first = Node.objects.get()
    values = {"storages": first.storages, "strangers": strangers(timezone.now()), **told}
    Node.objects.create(name="gpu77", public_key="0" * 44, health="healthy", **values)


def held_alerts() -> list[str]:
    from portal.alerts.every import alerts_all

    return [f"{one.name}: {one.message}" for one in alerts_all(now=timezone.now()) if one.code == "job_folders_held"]


def test_an_unknown_container_keeps_no_folder_of_another_server_or_another_storage(cluster: Running) -> None:
    from portal.hardware.models import Node

    ended(cluster)
    another_node(cluster)
    assert (due(), held_alerts()) == (1, [])
    Node.objects.exclude(name="gpu77").update(strangers=strangers(timezone.now()))
    assert due() == 0
    Node.objects.exclude(name="gpu77").update(storages=["/mnt/elsewhere"])
    assert due() == 1, "it can write in no storage but its own"


def test_an_unknown_container_keeps_a_folder_for_a_week_at_most_whatever_name_it_takes(cluster: Running) -> None:
    """A node that invents one can give it another name each day."""
    from portal.files.selectors import folder_fate
    from portal.hardware.models import Node

    ended(cluster, days=36.9)
    a_node_has_unknown_containers(cluster)
    assert due() == 0
    name = Node.objects.get().name
    words = "Its unknown containers keep 1 job folder from being deleted, for 7 days at most."
    assert held_alerts() == [f"{name}: {words}"]
    assert "has a container that this portal does not know" in folder_fate(job=cluster.job, now=timezone.now()).fault
    ended(cluster, days=37.1)
    assert due() == 1
    assert folder_fate(job=cluster.job, now=timezone.now()).fault == ""
    assert held_alerts() == []
    Node.objects.update(strangers=strangers(timezone.now() - timedelta(days=8)))
    (told,) = held_alerts()
    assert "for more than 7 days" in told


@pytest.mark.parametrize("hindrance", [
    a_container_is_there, a_server_was_taken_out, the_job_is_not_over, another_job_has_the_path,
    the_storage_is_forgotten, the_storage_is_elsewhere, it_began_before_there_were_rows, it_is_deleted,
    it_is_asked_again_later, a_node_has_unknown_containers,
])  # fmt: skip
def test_a_folder_is_left_alone_while(cluster: Running, hindrance: Any) -> None:
    ended(cluster)
    assert due() == 1
    hindrance(cluster)
    assert (due(), expire()) == (0, 0)
    assert cluster.folder.exists()


def test_that_a_removed_servers_logs_count_as_done_says_nothing_of_its_container(cluster: Running) -> None:
    from portal.hardware.models import Node
    from portal.logs.archiver import archiver
    from portal.scheduler.changes import node_remove

    ended(cluster)
    assert due() == 1
    of_job(cluster).update(removed_at=None, log_complete=True, log_end=0, archived_to=0)
    node_remove(node=Node.objects.get(), now=timezone.now(), actor="root", dry_run=False)
    archiver().step(cluster.row.pk)
    assert of_job(cluster).get().removed_at is not None
    assert (due(), expire()) == (0, 0)
    assert cluster.folder.exists()


def test_however_many_are_due_it_takes_as_many_queries(cluster: Running, django_assert_num_queries: Any) -> None:
    from portal.files.models import KeptFolder
    from portal.jobs.models import Job

    ended(cluster)
    with django_assert_num_queries(4):
        assert due() == 1
    for number in range(5):
        other = cluster.world.submit(name=f"other{number}")
        Job.objects.filter(pk=other.pk).update(state="succeeded", ended_at=cluster.job.ended_at)
        path = f"{cluster.root}/alice/other{number}-1"
        KeptFolder.objects.create(job=other, storage=kept(cluster).storage, path=path)
    with django_assert_num_queries(4):
        assert due() == 6


# ------------------------------------------------------------ what becomes of it


def test_a_due_folder_is_deleted_by_a_node_and_nothing_else_is(running: Running) -> None:
    from portal.files.tasks import expire_folders

    (running.folder / "out").mkdir()
    (running.folder / "out" / "model.pt").write_text("weights")
    other = running.folder.parent / "train-99"
    lease(other_folder(other), timezone.now() - timedelta(days=99))
    ended(running)
    expire_folders()
    assert kept(running).next_at is not None
    until_gone(running)
    row = kept(running)
    assert (row.deleted_at is not None, row.failures, row.fault) == (True, 0, "")
    assert os.listdir(running.folder.parent) == ["train-99"]
    assert expire() == 0


def other_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_folder_that_somebody_deleted_is_known_to_be_gone(running: Running) -> None:
    ended(running)
    (running.folder / ".berth" / "lease.worker.0").unlink()
    (running.folder / ".berth").rmdir()
    running.folder.rmdir()
    until_gone(running)
    assert kept(running).deleted_at is not None


def test_a_portal_whose_clock_is_ahead_deletes_nothing(running: Running) -> None:
    (running.folder / "model.pt").write_text("weights")
    ended(running, days=1)
    ahead = timezone.now() + timedelta(days=365)
    assert len(due_at(ahead)) == 1
    assert "which is not long enough ago" in until_failed(running, ahead).fault
    assert (running.folder / "model.pt").exists()
    ended(running)
    assert due() == 1  # once the clock is right again, and not only when that moment comes


def due_at(now: datetime) -> Any:
    from portal.files.selectors import folders_due

    return folders_due(now=now, limit=10)


def test_what_cannot_be_deleted_is_told_and_tried_less_and_less_often(running: Running) -> None:
    from tests.support.people.cast import Api
    from tests.support.people.pages import Browser

    ended(running)
    (running.folder / ".berth").rename(running.folder / "berth")
    now, waits = timezone.now(), []
    for failures in range(1, 8):
        row = until_failed(running, now, failures)
        waits.append(round((row.next_at - now).total_seconds() / 3600))
    assert waits == [1, 2, 4, 8, 16, 24, 24]
    fault = f"{running.folder} has no folder .berth, as each job's folder has, and is left alone."
    assert kept(running).fault == fault
    told = Api(running.world.user).get(f"jobs/{running.job.pk}")["folder"]
    assert (told["deleted_at"], told["fault"]) == (None, fault)
    text = Browser(running.world.user).get(f"/jobs/{running.job.pk}/files").text
    assert "is still there." in text
    from portal.alerts.every import alerts_all

    (alert,) = [one for one in alerts_all(now=timezone.now()) if one.code == "job_folders"]
    assert alert.message == f"1 job folder could not be deleted for more than two days: {fault}"
    assert "has no folder .berth" in text


def test_a_storage_that_no_node_offers_is_told_and_its_folders_are_kept(cluster: Running) -> None:
    from portal.hardware.models import Node

    ended(cluster)
    Node.objects.update(health="lost")
    assert expire() == 0
    assert kept(cluster).fault == "No node that has the storage jobs, where job folders lie, is up now."
    assert cluster.folder.exists()


def test_the_page_and_the_api_say_until_when_it_is_kept_and_when_it_was_deleted(running: Running) -> None:
    from tests.support.people.cast import Api
    from tests.support.people.pages import Browser

    api, page = Api(running.world.user), f"/jobs/{running.job.pk}/files"
    assert api.get(f"jobs/{running.job.pk}")["folder"] == {"kept_until": None, "deleted_at": None, "fault": ""}
    ended(running, days=2)
    assert running.job.ended_at is not None
    until = running.job.ended_at + timedelta(days=30)
    told = api.get(f"jobs/{running.job.pk}")["folder"]
    assert (datetime.fromisoformat(told["kept_until"]), told["deleted_at"]) == (until, None)
    assert (
        f'This folder is kept until <time datetime="{until.isoformat()}"' in Browser(running.world.user).get(page).html
    )
    ended(running, days=31)
    until_gone(running)
    told = api.get(f"jobs/{running.job.pk}")["folder"]
    assert told["kept_until"] is None
    assert told["deleted_at"]
    words = f"Its folder was deleted on {timezone.now():%Y-%m-%d}, 31 days after the job's end."
    text = Browser(running.world.user).get(page).text
    assert words in text
    assert "Try again" not in text
    answer = api.call("GET", f"jobs/{running.job.pk}/files")
    assert (answer.status_code, answer.json()["detail"]) == (404, words)

"""SQLite, one node, jobs as plain processes: the stack that `make demo` starts."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from berth.model.jobs import Metrics
from tests.e2e.flows.journeys import TRAINER, Journeys
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until
from tests.support.services.mail_server import MailServer
from tests.support.services.receiver import Receiver

STILL_THERE = "SELECT count(*) FROM jobs_taskattempt WHERE removed_at IS NULL"
MONTH_S = 31 * 86_400
EXPIRE = """
from time import sleep
from datetime import timedelta
from django.utils.timezone import now
from portal.files.models import KeptFolder
from portal.files.tasks import expire_folders
untold = KeptFolder.objects.filter(job__ended_at__lt=now() - timedelta(days=30), deleted_at=None, failures=0)
while untold.exists():
    untold.update(next_at=None)
    expire_folders()
    sleep(0.1)
"""
"""As the control worker does it round after round, until each folder is gone or why it is not is known."""


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Person:
    return alice(embedded_stack)


def measured(user: Person, job: int) -> Metrics | None:
    """The curves of its first task, once there is a reading of its processes."""
    curves = user.berth.jobs.metrics(job)
    return curves if any(one.metric == "memory" and any(one.max) for one in curves.series) else None


class TestOnProcesses(Journeys):
    def test_every_screen_may_say_that_it_is_not_isolated(self, user: Person) -> None:
        job = user.run("true")
        user.wait(job, "succeeded")
        (task,) = user.task_attempts(job)
        assert task["isolation"] == "process (not isolated)"
        assert "not isolated" in user.log_text(job, task["id"])

    def test_the_curves_of_a_running_task_are_live_and_its_hours_count(self, user: Person) -> None:
        job = user.run(TRAINER, gpu=1, name="measured")
        user.wait_line(job, "training")
        curves = wait_until(lambda: measured(user, job), "a reading of the task")
        (utilisation,) = [one for one in curves.series if one.metric == "gpu_utilisation"]
        assert 0 <= (utilisation.mean[-1] or 0) <= 100
        assert len(utilisation.mean) == len(curves.times)
        held = [row.gpu_hours for row in user.berth.usage(by=["user"]).rows if row.user == user.name]
        assert held[0] > 0

    def test_logs_of_the_job_that_ended_first_give_way_to_those_of_the_next(
        self, user: Person, embedded_stack: Stack
    ) -> None:
        jobs = []
        for word in ("first", "second"):  # and so do they end
            jobs.append(user.run(f"echo {word}"))
            user.wait(jobs[-1], "succeeded")
        wait_until(lambda: embedded_stack.sql(STILL_THERE) == [(0,)], "the containers to be gone")
        runs = [user.task_attempts(job)[0]["id"] for job in jobs]
        for run in runs:  # as if each had written 2 GB
            embedded_stack.sql("UPDATE jobs_taskattempt SET archived_to = %s WHERE id = %s", 2 << 30, UUID(run).hex)
        with embedded_stack.client("root") as root:
            rules = f"/virtual-clusters/{user.vc}"
            assert root.patch(rules, json={"log_quota_gb": 3}).is_success
            embedded_stack.manage("shell", "-c", "from portal.logs.tasks import give_way; give_way()")
            assert root.patch(rules, json={"log_quota_gb": None}).is_success
        assert "its virtual cluster has no room for more logs" in user.log_text(jobs[0], runs[0])
        assert "second" in user.log_text(jobs[1], runs[1])

    def test_the_folder_of_a_job_that_ended_long_ago_is_deleted(self, user: Person, embedded_stack: Stack) -> None:
        job, other = (user.run('echo weights >"$BERTH_JOB_DIR/model.pt"', name=name) for name in ("old", "new"))
        for one in (job, other):
            user.wait(one, "succeeded")
        wait_until(lambda: embedded_stack.sql(STILL_THERE) == [(0,)], "the containers to be gone")
        folders = embedded_stack.jobs_root / user.name
        for path in (*(folders / "old-1" / ".berth").iterdir(), folders / "old-1" / ".berth"):
            os.utime(path, (time.time() - MONTH_S,) * 2)
        long_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=MONTH_S)
        embedded_stack.sql("UPDATE jobs_job SET ended_at = %s WHERE id IN (%s, %s)", long_ago, job, other)
        embedded_stack.manage("shell", "-c", EXPIRE)
        gone, kept = (user.berth.jobs.get(one).folder for one in (job, other))
        assert [path.name for path in folders.iterdir() if path.name.startswith(("old", "new"))] == ["new-1"]
        assert (folders / "new-1" / "model.pt").read_text() == "weights\n"
        assert gone is not None
        assert gone.deleted_at is not None
        assert kept is not None
        assert "not long enough ago" in kept.fault


@pytest.fixture
def outside() -> Iterator[tuple[MailServer, Receiver]]:
    """A mail server and a webhook's receiver."""
    with closing(MailServer()) as mail_server, closing(Receiver()) as receiver:
        yield mail_server, receiver


def test_a_failed_job_is_told_by_mail_and_webhook_also_by_a_worker_that_is_killed_over_it(
    embedded_stack: Stack, user: Person, outside: tuple[MailServer, Receiver]
) -> None:
    mail_server, receiver = outside
    stack = embedded_stack
    for name in ("web", "control"):
        stack.restart(
            name, BERTH_EMAIL_URL=f"smtp://127.0.0.1:{mail_server.port}", BERTH_EMAIL_FROM="berth@example.org",
            BERTH_WEBHOOK_ALLOW="127.0.0.1", BERTH_FAILPOINT="delivery_sent" if name == "control" else "",
        )  # fmt: skip
    stack.wait_ready()
    python(stack, f"User.objects.filter(username={user.name!r}).update(email='alice@example.org')")
    with stack.client("root") as root:
        hook = {"url": receiver.url, "kinds": ["job.failed"], "secret": "whsec_" + "A" * 32}
        assert root.put("/webhook", json=hook).status_code == 201
        assert user.http.put("/me/notices", json={"kinds": ["failed"]}).json()["sending"] is True
        job = user.run("exit 3", name="told")
        user.wait(job, "failed")
        wait_until(lambda: not stack.processes["control"].is_running(), "the worker to be killed over the delivery")
        assert len(receiver.received) == 1
        (row,) = root.get("/webhook/deliveries").json()["results"]
        assert row["state"] == "waiting", "sent, and nobody noted it"
        stack.restart("control", BERTH_EMAIL_URL=f"smtp://127.0.0.1:{mail_server.port}",
                      BERTH_EMAIL_FROM="berth@example.org", BERTH_WEBHOOK_ALLOW="127.0.0.1")  # fmt: skip
        # The worker may have been about to send the mail as well when it was killed.
        python(
            stack,
            "[m.objects.update(claimed_until=now) for m in (Delivery, Mail)]; Lane.objects.update(busy_until=now)",
        )
        wait_until(lambda: len(receiver.received) > 1, "the delivery to come again")
        assert {got.headers["webhook-id"] for got in receiver.received} == {row["message_id"]}
        # Where the worker was killed between sending the mail and noting it, the same mail comes again as well.
        wait_until(lambda: mail_server.letters, "the mail")
        assert len({str(letter["Message-ID"]) for letter in mail_server.letters}) == 1
        assert "told#1 failed" in str(mail_server.letters[0]["Subject"])
        assert root.delete("/webhook").status_code == 204


def python(stack: Stack, line: str) -> None:
    """Carry this out beside the portal, for what would take minutes or an administrator's page."""
    names = "from portal.accounts.models import User; from portal.notices.models import Delivery, Lane, Mail"
    stack.manage("shell", "-c", f"{names}; from django.utils import timezone; now = timezone.now(); {line}")

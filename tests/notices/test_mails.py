"""E-mail about jobs: who gets it, what it says, and what becomes of it when the mail server does not take it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol import Phase
from portal.clusters.models import CellType
from portal.clusters.services import member_set, quota_set, vc_create
from portal.jobs.models import Job, JobEvent
from portal.notices.models import Mail, Notice
from portal.notices.services import mails_make, notices_gather, notices_give_up
from tests.dispatch.plans import PROD, carry_out, preempt, read, running, submitted
from tests.notices.telling import choose, ended_jobs, mail_of, mail_round
from tests.support.cast import person
from tests.support.mail_server import MailServer
from tests.support.world import World

pytestmark = pytest.mark.django_db


def failed_job(world: World, code: int = 3) -> Job:
    node = world.nodes.get("gpu01") or world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    node.finish(code=code)
    world.settle()
    return job


def subjects(server: MailServer) -> list[str]:
    return [str(letter["Subject"]) for letter in server.letters]


def test_a_failed_job_is_told_with_its_cause_and_a_link(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    job = failed_job(world)
    mail_round()
    (letter,) = mail_server.letters
    assert letter["To"] == "alice@example.org"
    assert letter["From"] == "Berth <berth@example.org>"
    assert str(letter["Subject"]).startswith(
        "[berth] alice/train#1 failed: Task worker/0 failed on gpu01: exit status 3"
    )
    plain, html = (letter.get_body([kind]) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    link = f"http://127.0.0.1:8000/jobs/{job.pk}"
    for part in (plain, html):
        assert link in part.get_content()
        assert "worker/0 failed on gpu01: exit status 3" in part.get_content()
    mail_round()
    assert len(mail_server.letters) == 1, "once is enough"


def test_who_chose_nothing_is_told_nothing(world: World, mail_server: MailServer) -> None:
    failed_job(world)
    mail_round()
    assert mail_server.letters == []
    assert not Notice.objects.exists()


def test_a_job_file_asks_for_its_own_job(world: World, mail_server: MailServer) -> None:
    node = world.node("gpu01", gpus=1)
    world.submit(berth={"notify": ["running"]})
    world.settle()
    node.finish()
    world.settle()
    mail_round()
    assert subjects(mail_server) == ["[berth] alice/train#1 runs: alice/train#1 runs."]


def test_openpais_own_words_for_it_hold_too(world: World, mail_server: MailServer) -> None:
    node = world.node("gpu01", gpus=1)
    extras = {"jobStatusChangeNotification": {"succeeded": True, "running": False}}
    world.submit(extras=extras)
    world.settle()
    node.finish()
    world.settle()
    mail_round()
    assert [subject.split(":")[0] for subject in subjects(mail_server)] == ["[berth] alice/train#1 succeeded"]


def test_what_is_chosen_counts_from_then_on_for_jobs_that_run(world: World, mail_server: MailServer) -> None:
    node = world.node("gpu01", gpus=1)
    world.submit()
    world.settle()
    mail_round()
    choose(world.user, "running", "succeeded")
    node.finish()
    world.settle()
    mail_round()
    assert [subject.split(":")[0] for subject in subjects(mail_server)] == ["[berth] alice/train#1 succeeded"]


def test_a_thousand_jobs_that_end_at_once_are_a_few_mails_and_nothing_is_left_out(
    world: World, mail_server: MailServer
) -> None:
    choose(world.user, "failed")
    job = failed_job(world)
    mail_round()
    ended_jobs(job, 1000)
    now = timezone.now()
    for second in range(0, 40, 2):
        mail_round(now + timedelta(seconds=second))
    assert len(mail_server.letters) == 2
    assert subjects(mail_server)[1] == "[berth] 1000 changes of your jobs: 1000 failed"
    body = mail_server.letters[1].get_body(["plain"])
    assert body is not None
    assert body.get_content().count("alice/many#") == 200
    assert "And 800 more" in body.get_content()


def test_a_user_is_written_to_so_often_a_minute_and_then_of_all_that_came_meanwhile(
    world: World, mail_server: MailServer
) -> None:
    choose(world.user, "failed")
    job = failed_job(world)
    start = timezone.now()
    mail_round(start)
    for number in range(1, 9):
        JobEvent.objects.create(job=job, at=start, code="failed", message=f"It failed, {number}.")
        mail_round(start + timedelta(seconds=number))
    assert len(mail_server.letters) == 5
    mail_round(start + timedelta(seconds=70))
    assert subjects(mail_server)[5:] == ["[berth] 4 changes of your jobs: 4 failed"]
    assert not Notice.objects.filter(mail=None).exists()


def test_nothing_in_a_message_becomes_a_header_or_markup(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    job = failed_job(world)
    mail_round()
    JobEvent.objects.create(
        job=job, at=timezone.now(), code="failed", message="It\r\nBcc: eve@example.org\n\x1b]0;x\x07<script>x</script>"
    )
    mail_round()
    letter = mail_server.letters[-1]
    assert letter["Bcc"] is None
    assert letter["Subject"] == "[berth] alice/train#1 failed: It Bcc: eve@example.org ]0;x <script>x</script>"
    html = letter.get_body(["html"])
    assert html is not None
    assert "<script>" not in html.get_content()


def test_a_mail_server_that_is_away_is_tried_again_and_nothing_is_lost(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    failed_job(world)
    failed_job(world)
    mail_server.close()
    now = timezone.now()
    mail_round(now)
    mail_round(now + timedelta(seconds=1))
    first, second = Mail.objects.order_by("id")
    assert (first.attempts, second.attempts) == (1, 0), "one try says that it is away"
    assert "ConnectionRefusedError" in first.error
    again = MailServer()
    try:
        from django.conf import settings

        settings.EMAIL_PORT = again.port
        mail_round(now + timedelta(seconds=10))
        assert len(again.letters) == 2
    finally:
        again.close()


def test_a_refusal_for_good_is_kept_and_not_tried_again(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    mail_server.refusals["alice@example.org"] = "550 No such user here"
    failed_job(world)
    mail_round()
    mail = Mail.objects.get()
    assert mail.state == "given_up"
    assert "No such user here" in mail.error
    mail_server.refusals["alice@example.org"] = "450 Mailbox busy"
    failed_job(world)
    now = timezone.now()
    mail_round(now)
    busy = Mail.objects.order_by("id").last()
    assert busy is not None
    assert busy.state == "waiting"
    mail_server.refusals.clear()
    mail_round(now + timedelta(seconds=30))
    assert len(mail_server.letters) == 1


def test_a_mail_that_nobody_takes_is_given_up_after_a_day(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    mail_server.refusals["alice@example.org"] = "450 Mailbox busy"
    failed_job(world)
    now = timezone.now()
    for minute in range(0, 60 * 25, 10):
        mail_round(now + timedelta(minutes=minute))
    mail = Mail.objects.get()
    assert mail.state == "given_up"
    assert mail.error.startswith(f"Given up after {mail.attempts} attempts: ")
    assert 8 <= mail.attempts <= 20


def test_after_a_day_of_outage_also_what_never_had_its_turn_is_given_up(
    world: World, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    now = timezone.now()
    yesterday = now - timedelta(days=1, minutes=1)
    old = [mail_of(world.user, now, created_at=yesterday) for _ in range(20)]
    Mail.objects.bulk_create([*old, mail_of(world.user, now)])
    claimed, *_ = Mail.objects.order_by("id")
    Mail.objects.filter(pk=claimed.pk).update(claimed_until=now + timedelta(seconds=60))
    assert notices_give_up(now=now) == 0, "the server answers: each is tried"
    mail_server.close()
    mail_round(now)
    assert notices_give_up(now=now) == 19
    kept = Mail.objects.filter(state="waiting")
    assert [(row.created_at == now, row.pk == claimed.pk) for row in kept.order_by("id")] == [
        (False, True), (True, False),
    ]  # fmt: skip
    said = {row.error.partition(":")[0] for row in Mail.objects.filter(state="given_up")}
    assert said == {"Given up after a day in which nothing was taken; it was not tried.", "Given up after a day"}
    assert "mail: 19 were given up after a day in which nothing was taken" in caplog.text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"is_active": False}, "disabled"),
        ({"email": ""}, "no valid e-mail"),
        ({"email": "a\nb@c"}, "no valid e-mail"),
        ({"email": '"a\x0bX:"@example.org'}, "no valid e-mail"),
    ],
)
def test_a_disabled_user_or_one_without_an_address_gets_none(
    world: World, mail_server: MailServer, change: dict[str, object], why: str
) -> None:
    choose(world.user, "failed")
    failed_job(world)
    type(world.user).objects.filter(pk=world.user.pk).update(**change)
    mail_round()
    assert mail_server.letters == []
    mail = Mail.objects.get()
    assert mail.state == "given_up"
    assert why in mail.error


def test_a_mail_that_cannot_be_made_keeps_no_other_back(
    world: World, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    now = timezone.now()
    due = {"created_at": now, "next_try_at": now, "claimed_until": now}
    for _ in range(3):
        Mail.objects.create(user=world.user, alerts=[{"begun": True}], **due)  # as no release writes it
    choose(world.user, "failed")
    failed_job(world)
    mail_round(now + timedelta(seconds=2))
    assert len(mail_server.letters) == 1
    bad = Mail.objects.filter(state="waiting")
    assert [(row.attempts, row.error) for row in bad] == [(1, "KeyError: 'since'")] * 3
    assert all(row.next_try_at > now + timedelta(seconds=5) for row in bad), "each is tried again later"
    assert "Traceback" in caplog.text
    mail_round(now + timedelta(days=1))
    assert not bad.all().exists(), "and given up after a day"


def test_of_a_job_that_is_deleted_meanwhile_nothing_is_written(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    ended_jobs(world.submit(), 1)
    notices_gather(now=timezone.now())
    mails_make(now=timezone.now())
    Job.objects.filter(name="many").delete()
    mail_round()
    assert mail_server.letters == []
    assert Mail.objects.get().error == "The jobs that it was about are deleted."


def test_whoever_dies_between_sending_and_noting_it_sends_it_once_more_with_the_same_id(
    world: World, mail_server: MailServer
) -> None:
    choose(world.user, "failed")
    failed_job(world)
    now = timezone.now()
    notices_gather(now=now)
    mails_make(now=now)
    mail_round(now)
    # What a killed worker leaves: sent, but the row says that it is being tried.
    Mail.objects.update(state="waiting", ended_at=None, claimed_until=now + timedelta(seconds=60))
    mail_round(now + timedelta(seconds=30))
    assert len(mail_server.letters) == 1, "the claim holds"
    mail_round(now + timedelta(seconds=61))
    first, second = mail_server.letters
    assert first["Message-ID"] == second["Message-ID"]


def test_a_preempted_job_is_warned_of_once_and_stopped_jobs_are_told(world: World, mail_server: MailServer) -> None:
    node = world.node("gpu01", gpus=1)
    choose(world.user, "warned", "preempted", "stopped")
    world.submit(berth={"timeLimit": 1})
    world.settle()
    world.cycle(now=timezone.now() + timedelta(seconds=5))
    assert [order.phase for order in node.desired().orders] == [Phase.STOP]
    mail_round()
    assert subjects(mail_server) == ["[berth] alice/train#1 is warned: Its time limit of 1 s was reached."]


def test_a_mail_names_another_teams_job_no_more_than_the_portal_does(world: World, mail_server: MailServer) -> None:
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=2)
    leaf = CellType.objects.get(child__isnull=True)
    language, carol = vc_create(name="language", now=world.now), person("carol")
    member_set(vc=language, user=carol, role="lead", now=world.now)
    for vc in (world.vc, language):
        quota_set(vc=vc, cell_type=leaf, count=2, now=world.now)
    places = {0: "gpu01/0", 1: "gpu02/0"}
    choose(world.user, "preempted")
    low = running(world, world.user, places, borrowed=True, name="low")
    high = submitted(world, carol, places, name="secret-plan", extras=PROD)
    loaded = read()
    assert carry_out(loaded, preemptions=[preempt(loaded, high, places, {low: (0, 1)}, grace_s=90)]).preempted == 1
    mail_round()
    (letter,) = mail_server.letters
    assert "is preempted: Preempted by a job of carol in language (2 GPUs)" in str(letter["Subject"])
    assert b"secret-plan" not in letter.as_bytes()

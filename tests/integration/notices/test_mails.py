"""E-mail about jobs: who gets it, what it says, and what becomes of it when the mail server does not take it."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.states import Phase
from portal.hardware.models import CellType
from portal.jobs.exits import END
from portal.jobs.models import Job, JobEvent
from portal.notices.models import Lane, Mail, Notice
from portal.notices.services.gather import notices_gather
from portal.notices.services.mails import mails_make
from portal.notices.services.upkeep import notices_give_up
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.integration.notices.telling import choose, ended_jobs, mail_of, mail_round
from tests.integration.scheduler.plans import PROD, carry_out, preempt, read, running, submitted
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.services.mail_server import MailServer
from tests.support.services.processes import free_port
from tests.support.services.tls import DAY, Authority

pytestmark = pytest.mark.django_db

CLOSED = (
    "Nothing listens where the mail server of BERTH_EMAIL_URL should: start it, open its port, or correct "
    "BERTH_EMAIL_URL."
)


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
        JobEvent.objects.create(job=job, at=start, code="failed", data=END(what=f"It failed, {number}").stored())
        mail_round(start + timedelta(seconds=number))
    assert len(mail_server.letters) == 5
    mail_round(start + timedelta(seconds=70))
    assert subjects(mail_server)[5:] == ["[berth] 4 changes of your jobs: 4 failed"]
    assert not Notice.objects.filter(mail=None).exists()


def test_nothing_in_a_message_becomes_a_header_or_markup(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    job = failed_job(world)
    mail_round()
    said = END(what="It\r\nBcc: eve@example.org\n\x1b]0;x\x07<script>x</script>")
    JobEvent.objects.create(job=job, at=timezone.now(), code="failed", data=said.stored())
    mail_round()
    letter = mail_server.letters[-1]
    assert letter["Bcc"] is None
    assert letter["Subject"] == "[berth] alice/train#1 failed: It Bcc: eve@example.org ]0;x <script>x</script>."
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
    assert first.error == CLOSED
    again = MailServer()
    try:
        from django.conf import settings

        settings.EMAIL_PORT = again.port
        mail_round(now + timedelta(seconds=10))
        assert len(again.letters) == 2
    finally:
        again.close()


def mail_error(world: World) -> str:
    """What is stored of a mail that cannot be sent. Users read it: neither server nor account are in it."""
    from django.conf import settings

    Mail.objects.all().delete()
    Lane.objects.all().delete()  # what was shut by the failure before
    now = timezone.now()
    mail_of(world.user, now).save()
    mail_round(now)
    mail = Mail.objects.get()
    assert mail.state == "waiting"
    for secret in (settings.EMAIL_HOST, str(settings.EMAIL_PORT), "the-account", "the-password"):
        assert secret not in mail.error, mail.error
    return mail.error


def test_a_mail_server_whose_address_is_wrong_is_told_with_its_cure(
    world: World, mail_server: MailServer, settings: Settings
) -> None:
    settings.EMAIL_HOST, settings.EMAIL_PORT = "nowhere.invalid", 4650
    assert mail_error(world) == (
        "There is no server of the name in BERTH_EMAIL_URL: correct that, or this server's DNS."
    )
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    assert mail_error(world) == CLOSED
    settings.EMAIL_PORT, settings.EMAIL_USE_SSL = mail_server.port, True
    assert mail_error(world) == (
        "The mail server of BERTH_EMAIL_URL does not speak TLS: correct the port or the beginning of the address in "
        "BERTH_EMAIL_URL."
    )
    settings.EMAIL_USE_SSL, settings.EMAIL_USE_TLS = False, True
    assert mail_error(world) == (
        "The mail server of BERTH_EMAIL_URL does not offer what BERTH_EMAIL_URL asks for (STARTTLS extension not "
        "supported by server): correct its beginning, its port, or its user."
    )


def test_a_mail_server_that_does_not_greet_or_hangs_up_is_told_with_its_cure(
    world: World, mail_server: MailServer, settings: Settings
) -> None:
    settings.EMAIL_TIMEOUT = 0.2
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.EMAIL_PORT = silent.getsockname()[1]
        assert mail_error(world) == (
            "The mail server of BERTH_EMAIL_URL does not answer: look for a firewall between, or a wrong address in "
            "BERTH_EMAIL_URL, or it speaks TLS from the beginning; then that is smtps://."
        )
    settings.EMAIL_TIMEOUT = 10
    with socket.create_server(("127.0.0.1", 0)) as closing_one:
        settings.EMAIL_PORT = closing_one.getsockname()[1]
        threading.Thread(target=lambda: closing_one.accept()[0].close(), daemon=True).start()
        assert mail_error(world) == (
            "The mail server of BERTH_EMAIL_URL closed the connection: it ended or has begun anew, or it wants TLS; "
            "then BERTH_EMAIL_URL begins with smtps://."
        )


def test_a_certificate_of_the_mail_server_that_is_not_taken_is_told_with_its_cure(
    world: World, mail_server: MailServer, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    settings.EMAIL_USE_SSL = True
    for files, words in (
        (authority.sign("expired", begins=-2 * DAY, ends=-DAY), "has expired: renew it there (or set this clock right"),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet: this server's clock says"),
        (
            authority.sign("other", host="mail.example.org"),
            "is for another name: write the name that it has into BERTH_EMAIL_URL, or have one made for that one.",
        ),
        (
            Authority(tmp_path, "stranger").sign("foreign"),
            "is signed by an authority that is not known here (unable to get local issuer certificate): name its file "
            "in SSL_CERT_FILE.",
        ),
    ):
        with closing(MailServer(files)) as bad:
            settings.EMAIL_PORT = bad.port
            error = mail_error(world)
            assert error.startswith(f"The certificate of the mail server of BERTH_EMAIL_URL {words}"), error
    with closing(MailServer(authority.sign("good"))) as good:
        settings.EMAIL_PORT = good.port
        mail_round(timezone.now() + timedelta(minutes=10))
        assert len(good.letters) == 1


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_log_in_or_a_sender_that_the_mail_server_does_not_take_is_told_with_its_cure(
    world: World, mail_server: MailServer, settings: Settings
) -> None:
    mail_server.refuses = "550 5.7.1 no relay for you"
    assert mail_error(world) == (
        "The mail server of BERTH_EMAIL_URL takes no mail from this portal (550 5.7.1 no relay for you): correct "
        "BERTH_EMAIL_FROM, or allow that sender there."
    )
    with closing(MailServer(password="right")) as closed:
        settings.EMAIL_PORT = closed.port
        assert mail_error(world) == (
            "The mail server of BERTH_EMAIL_URL wants a log-in (530 5.7.0 Authentication required): write user and "
            "password into BERTH_EMAIL_URL."
        )
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "the-account", "the-password"
        assert mail_error(world) == (
            "The mail server of BERTH_EMAIL_URL does not know this account or its password (535 5.7.8 Authentication "
            "credentials invalid): correct them in BERTH_EMAIL_URL."
        )
        settings.EMAIL_HOST_PASSWORD = "right"
        mail_round(timezone.now() + timedelta(minutes=10))
        assert len(closed.letters) == 1


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
    language, carol = vc_create(name="language", host_network=True, now=world.now), person("carol")
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

"""Alerts are told: to administrators by mail and to the webhook, once, when they have lasted and when they are over."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import ClusterRole, User
from portal.alerts.models import AlertWatch
from portal.alerts.silences import silence_set
from portal.alerts.telling import alerts_look
from portal.alerts.watch import AlertThread
from portal.data_folder.models import Backup
from portal.hardware.models import Node, ReportsLane
from portal.hardware.services.silence import lane_pulse
from portal.hardware.wordings import NO_REPORT
from portal.notices.models import Delivery, Lane, Mail
from portal.notices.selectors import mails_failing
from portal.notices.services.sending import lane_shut
from portal.notices.services.webhook import webhook_test
from portal.scheduler.lease import lease_release, lease_take
from portal.scheduler.models import CycleLease
from portal.teams.models import KeptLogs, VirtualCluster
from portal.teams.selectors.kept_logs import GB
from tests.integration.notices.telling import hook, hook_round, mail_of, mail_round
from tests.integration.scheduler.looking import looks, quiet_world
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser
from tests.support.run.waiting import wait_until
from tests.support.services.mail_server import MailServer
from tests.support.services.receiver import Receiver

pytestmark = pytest.mark.django_db
STEP = timedelta(seconds=15)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(settings: Settings) -> World:
    return quiet_world(settings)


@pytest.fixture
def root(world: World) -> User:
    user = person("root", ClusterRole.ADMIN)
    user.email = "root@example.org"
    user.save()
    return user


LOST = "No report since noon; given up after 60 s."


def lost(*names: str, health: str = "lost") -> None:
    Node.objects.filter(name__in=names).update(
        health=health, health_reason=NO_REPORT(time="noon", seconds=60) if health == "lost" else ""
    )


def subjects(server: MailServer) -> list[str]:
    return [str(letter["Subject"]).strip() for letter in server.letters]


def words_of(letter: EmailMessage, kind: str = "plain") -> str:
    part = letter.get_body([kind])
    assert part is not None
    return str(part.get_content())


def told(receiver: Receiver) -> list[tuple[str, str]]:
    return [(json.loads(one.body)["type"], json.loads(one.body)["data"]["alert"]["name"]) for one in receiver.received]


def test_an_alert_that_lasts_is_told_once_and_its_end_too(
    world: World, root: User, mail_server: MailServer, receiver: Receiver
) -> None:
    hook(receiver.url, "alert.begun", "alert.over")
    lost("gpu01")
    now = looks(world.now, MINUTE - STEP)
    mail_round(now)
    assert mail_server.letters == [], "it may be over in a moment"
    now = looks(now, 3 * MINUTE)
    mail_round(now)
    hook_round(now)
    assert subjects(mail_server) == [f"[berth] Alert: gpu01: {LOST}"]
    (letter,) = mail_server.letters
    assert letter["To"] == "root@example.org"
    for kind in ("plain", "html"):
        text = words_of(letter, kind)
        for words in (
            "critical gpu01",
            LOST,
            "systemctl status berth-node",
            "/alerts",
        ):
            assert words in text, kind
    assert told(receiver) == [("alert.begun", "gpu01")]
    alert = json.loads(receiver.received[0].body)["data"]["alert"]
    assert (alert["key"], alert["code"], alert["severity"]) == ("node_lost:node:gpu01", "node_lost", "critical")
    lost("gpu01", health="healthy")
    now = looks(now, 4 * MINUTE)
    lost("gpu01")
    now = looks(now, 2 * MINUTE)
    lost("gpu01", health="healthy")
    now = looks(now, 6 * MINUTE)
    mail_round(now)
    hook_round(now)
    assert subjects(mail_server)[1:] == [f"[berth] Over: gpu01: {LOST}"], "what comes back was not over"
    assert told(receiver)[1:] == [("alert.over", "gpu01")]
    assert AlertWatch.objects.get().known == {}


def test_what_is_over_within_a_minute_and_what_is_only_information_is_not_told(
    world: World, root: User, mail_server: MailServer
) -> None:
    now = world.now
    for _ in range(4):
        lost("gpu01")
        now = looks(now, MINUTE - 2 * STEP)
        lost("gpu01", health="healthy")
        now = looks(now, STEP)
    mail_round(now)
    assert mail_server.letters == []


def test_many_at_once_are_one_mail(world: World, root: User, mail_server: MailServer) -> None:
    names = [f"many{number:02}" for number in range(20)]
    Node.objects.bulk_create(Node(name=name, health="lost", joined_at=world.now) for name in names)
    now = looks(world.now, 2 * MINUTE)
    mail_round(now)
    (subject,) = subjects(mail_server)
    assert subject.startswith("[berth] 20 new alerts: many00, many01,")
    text = words_of(mail_server.letters[0])
    assert all(name in text for name in names)


def test_only_administrators_are_told_who_want_to_be_in_their_own_language(
    world: World, root: User, mail_server: MailServer
) -> None:
    people: dict[str, dict[str, Any]] = {
        "wang": {"language": "zh-hans"}, "gone": {"is_active": False}, "deaf": {}, "auditor": {"role": "auditor"},
        "nowhere": {"email": ""},
    }  # fmt: skip
    for name, changes in people.items():
        one = person(name, ClusterRole.ADMIN)
        User.objects.filter(pk=one.pk).update(**{"email": f"{name}@example.org", **changes})
    deaf = Api(User.objects.get(username="deaf"))
    assert deaf.get("me/notices")["alerts"] is True
    assert deaf.call("PUT", "me/notices", {"kinds": ["failed"], "alerts": False}).json()["alerts"] is False
    assert deaf.call("PUT", "me/notices", {"kinds": []}).json()["alerts"] is False, "left out: as it was"
    lost("gpu01")
    now = looks(world.now, 2 * MINUTE)
    mail_round(now)
    assert {letter["To"] for letter in mail_server.letters} == {"root@example.org", "wang@example.org"}
    (chinese,) = [letter for letter in mail_server.letters if letter["To"] == "wang@example.org"]
    assert "告警" in str(chinese["Subject"])
    assert "systemctl" in words_of(chinese)


def test_an_administrator_chooses_on_the_page_and_others_are_not_asked(world: World, root: User) -> None:
    page = Browser(root).get("/profile/notices")
    assert any(tag.get("name") == "alerts" and "checked" in tag for _kind, tag in page.tags)
    Browser(root).send("/profile/notices", kinds="failed")
    assert Api(root).get("me/notices")["alerts"] is False
    page = Browser(world.user).get("/profile/notices")
    assert not any(tag.get("name") == "alerts" for _kind, tag in page.tags)


def test_a_mail_server_that_is_away_loses_nothing(world: World, root: User, settings: Settings) -> None:
    with closing(MailServer()) as server:
        port = server.port
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_ON, settings.EMAIL_FROM = True, "Berth <berth@example.org>"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    lost("gpu01")
    now = looks(world.now, 2 * MINUTE)
    mail_round(now)
    mail = Mail.objects.get()
    assert (mail.state, mail.attempts) == ("waiting", 1)
    with closing(MailServer()) as server:
        settings.EMAIL_PORT = server.port
        mail_round(now + timedelta(minutes=10))
        assert subjects(server) == [f"[berth] Alert: gpu01: {LOST}"]
    page = Browser(root).get("/profile/notices")
    assert "Sent" in page.text


def test_a_silenced_alert_is_not_told_and_is_told_when_the_silence_is_over(
    world: World, root: User, mail_server: MailServer
) -> None:
    lost("gpu01")
    until = world.now + timedelta(hours=1)
    silence_set(key="node_lost:node:gpu01", reason="new fan", until=until, actor="root", now=world.now)
    now = looks(world.now, 10 * MINUTE)
    mail_round(now)
    assert mail_server.letters == []
    now = looks(until, 2 * MINUTE)
    mail_round(now)
    assert subjects(mail_server) == [f"[berth] Alert: gpu01: {LOST}"]
    silence_set(key="node_lost:node:gpu01", reason="again", until=now + timedelta(hours=1), actor="root", now=now)
    lost("gpu01", health="healthy")
    now = looks(now, 10 * MINUTE)
    mail_round(now)
    assert len(mail_server.letters) == 1, "nor is its end"


def test_a_look_that_was_just_made_is_not_made_again(world: World) -> None:
    now = world.now + MINUTE
    assert alerts_look(now=now)
    assert not alerts_look(now=now)
    assert not alerts_look(now=now + timedelta(seconds=5))
    assert alerts_look(now=now - timedelta(hours=1)), "a clock that was set back does not stop it"


@pytest.mark.django_db(transaction=True)
def test_several_workers_that_look_at_once_tell_once(
    world: World, root: User, mail_server: MailServer, receiver: Receiver
) -> None:
    hook(receiver.url, "alert.begun")
    lost("gpu01")
    now = looks(world.now, MINUTE - STEP)
    start = threading.Barrier(4)
    made: list[bool] = []

    def look() -> None:
        try:
            start.wait(10)
            made.append(alerts_look(now=now))
        finally:
            connection.close()

    workers = [threading.Thread(target=look) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert sorted(made) == [False, False, False, True]
    assert (Mail.objects.count(), Delivery.objects.filter(kind="alert.begun").count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_control_worker_looks_by_itself_and_sends_what_it_tells(world: World, receiver: Receiver) -> None:
    hook(receiver.url, "alert.begun")
    lost("gpu01")
    seen = (timezone.now() - 2 * MINUTE).isoformat()
    long_ago = timezone.now() - timedelta(hours=1)
    AlertWatch.objects.create(looked_at=long_ago, known={"node_lost:node:gpu01": {"seen": seen}})
    thread = AlertThread(pause_s=0.05)
    thread.start()
    try:
        wait_until(lambda: bool(receiver.received), "the delivery", deadline_s=30)
    finally:
        thread.close()
    assert told(receiver) == [("alert.begun", "gpu01")]


def failing_at_mails(execute: Any, sql: str, *rest: Any) -> Any:
    if '"notices_notice"' in sql:
        raise OperationalError("the table of notices is locked")
    return execute(sql, *rest)


def test_the_webhook_is_told_though_mails_cannot_be_made(
    world: World, root: User, mail_server: MailServer, receiver: Receiver
) -> None:
    hook(receiver.url)
    webhook_test(actor="root", now=timezone.now())
    with connection.execute_wrapper(failing_at_mails), pytest.raises(OperationalError):
        AlertThread().turn()
    assert len(receiver.received) == 1


def failing_at_logs(execute: Any, sql: str, *rest: Any) -> Any:
    if '"teams_keptlogs"' in sql:
        raise DataError("a number out of range")
    return execute(sql, *rest)


def test_a_question_that_fails_is_told_keeps_no_other_back_and_ends_nothing_that_it_had_found(
    world: World, root: User, receiver: Receiver
) -> None:
    hook(receiver.url, "alert.begun", "alert.over")
    VirtualCluster.objects.filter(pk=world.vc.pk).update(log_quota_gb=10)
    KeptLogs.objects.create(vc=world.vc, over=0, live=11 * GB, counted_at=world.now)
    now = looks(world.now, MINUTE)
    with connection.execute_wrapper(failing_at_logs):
        lost("gpu01")
        now = looks(now, 10 * MINUTE)
        found = codes(Api(root))
        assert found.keys() >= {"node_lost", "alerts_unclear"}
        row = found["alerts_unclear"]
        assert (row["name"], row["severity"], row["kind"]) == ("room for logs", "critical", "portal")
    hook_round(now)
    begun = [("alert.begun", "vision"), ("alert.begun", "gpu01"), ("alert.begun", "room for logs")]
    assert sorted(told(receiver)) == sorted(begun)
    KeptLogs.objects.all().delete()
    now = looks(now, 6 * MINUTE)
    hook_round(now)
    over = [("alert.over", "room for logs"), ("alert.over", "vision")]
    assert sorted(told(receiver)) == sorted(begun + over)


class Killed(BaseException):
    """What a process that is killed does to its transaction."""


def killed_at_the_mail(execute: Any, sql: str, *rest: Any) -> Any:
    if sql.startswith('INSERT INTO "notices_mail"'):
        raise Killed
    return execute(sql, *rest)


def test_who_is_killed_before_it_is_written_has_told_nobody_and_the_next_look_tells_it(
    world: World, root: User, mail_server: MailServer, receiver: Receiver
) -> None:
    hook(receiver.url, "alert.begun")
    lost("gpu01")
    now = looks(world.now, MINUTE - STEP)
    with pytest.raises(Killed), connection.execute_wrapper(killed_at_the_mail):
        alerts_look(now=now)
    now = looks(now + STEP, MINUTE)
    mail_round(now)
    hook_round(now)
    assert (len(mail_server.letters), len(receiver.received)) == (1, 1)


def codes(api: Api) -> dict[str, Any]:
    AlertWatch.objects.get_or_create(defaults={"looked_at": timezone.now()})
    return {row["code"]: row for row in api.get("alerts") if row["name"] != "data folder"}


def test_an_old_backup_is_told_and_that_there_never_was_one(world: World, root: User, settings: Settings) -> None:
    settings.BACKUP_DAYS = 7
    api = Api(root)
    assert codes(api) == {}, "the portal itself is younger"
    User.objects.update(date_joined=timezone.now() - timedelta(days=8))
    assert codes(api)["backup_old"]["message"] == "No backup was ever made."
    Backup.objects.create(made_at=timezone.now() - timedelta(days=9), size=1)
    row = codes(api)["backup_old"]
    assert (row["severity"], row["message"]) == ("warning", "The last backup is of 9 days ago.")
    Backup.objects.create(made_at=timezone.now() - timedelta(days=6), size=1)
    assert codes(api) == {}
    Backup.objects.all().delete()
    settings.BACKUP_DAYS = 0
    assert codes(api) == {}, "switched off"


def test_a_queue_stands_when_cycles_fail_and_not_when_the_cluster_is_full(
    world: World, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(root)
    for _ in range(3):
        world.submit(name="more")
    world.settle()
    long_ago = timezone.now() - timedelta(minutes=6)
    assert CycleLease.objects.filter(well_at__gt=long_ago).exists(), "a job waits, and nothing can be done for it"
    CycleLease.objects.update(well_at=long_ago)
    row = codes(api)["queue_standing"]
    assert (row["severity"], row["name"], "for 6 minutes" in row["message"]) == ("critical", "queue", True)
    monkeypatch.setattr(world.scheduler.snapshots, "load", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.cycle()
    assert "queue_standing" in codes(api), "a cycle that fails is none"
    monkeypatch.undo()
    world.cycle()
    assert codes(api) == {}
    CycleLease.objects.update(well_at=long_ago)
    for job in api.get("jobs?state=waiting")["results"]:
        api.call("POST", f"jobs/{job['id']}/pause")
    assert codes(api) == {}, "nobody waits for it"


def test_a_clock_that_was_an_hour_ahead_holds_no_scheduler_up_and_hides_nothing(
    world: World, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(name="more")
    now = timezone.now()
    ahead = now + timedelta(hours=1)
    assert lease_take(holder="one", now=ahead, seconds=8)
    lease_release(holder="one", now=ahead, well=True)
    ReportsLane.objects.update(last_pulse_at=ahead)
    silent = {"scheduler_stopped", "reports_stopped"}
    assert silent <= set(codes(Api(root))), "nobody has worked since the clock was set right"
    lane_pulse(now=now)
    monkeypatch.setattr(world.scheduler.snapshots, "load", lambda **_: 1 / 0)
    for minutes in (6, 0):
        with pytest.raises(ZeroDivisionError):
            world.cycle(now=now - timedelta(minutes=minutes))
    assert set(codes(Api(root))) & {"queue_standing", *silent} == {"queue_standing"}


def test_a_lease_is_kept_from_others_while_it_runs_though_clocks_differ(db: None) -> None:
    now = timezone.now()
    assert lease_take(holder="one", now=now, seconds=8)
    for seconds in (-7, 0, 7):
        assert not lease_take(holder="two", now=now + timedelta(seconds=seconds), seconds=8)
    assert lease_take(holder="one", now=now, seconds=8)
    assert lease_take(holder="two", now=now - timedelta(seconds=9), seconds=8), "the clock was set right"


@pytest.mark.parametrize("well_at_nothing", [True, False])
def test_a_queue_stands_also_where_no_cycle_has_gone_well_yet(
    world: World, root: User, monkeypatch: pytest.MonkeyPatch, well_at_nothing: bool
) -> None:
    world.submit(name="more")
    began = timezone.now() - timedelta(minutes=6)
    CycleLease.objects.all().delete()  # as a restore does, and as in a new installation
    if well_at_nothing:  # as an earlier release made the row
        CycleLease.objects.create(until=began)
    monkeypatch.setattr(world.scheduler.snapshots, "load", lambda **_: 1 / 0)
    for now in (began, timezone.now()):
        with pytest.raises(ZeroDivisionError):
            world.cycle(now=now)
    assert "for 6 minutes" in codes(Api(root))["queue_standing"]["message"]


def test_control_workers_that_do_not_look_any_more_are_told(world: World, root: User) -> None:
    AlertWatch.objects.create(looked_at=timezone.now() - timedelta(minutes=2))
    row = codes(Api(root))["control_stopped"]
    assert (row["severity"], row["kind"], row["name"]) == ("critical", "portal", "control")


def test_a_webhook_and_a_mail_server_that_take_nothing_are_told(
    world: World, root: User, receiver: Receiver, settings: Settings
) -> None:
    api = Api(root)
    hook(receiver.url)
    old = {"created_at": timezone.now() - timedelta(minutes=20), "claimed_until": world.now, "next_try_at": world.now}
    Delivery.objects.create(kind="ping", body="{}", **old)
    assert codes(api) == {}, "it was not tried yet"
    Delivery.objects.update(attempts=4, error="Answered 503.")
    Lane.objects.update_or_create(name="webhook", defaults={"busy_until": world.now, "not_before": world.now})
    assert codes(api) == {}, "it is the only one, and the receiver answers"
    Lane.objects.update(failures=4)
    row = codes(api)["webhook_failing"]
    assert (row["severity"], row["message"]) == (
        "warning", "The webhook has taken nothing for 20 minutes. Last attempt: Answered 503.",
    )  # fmt: skip
    Delivery.objects.create(kind="ping", body="{}", state="sent", ended_at=timezone.now(), **old)
    assert codes(api) == {}, "it takes others"
    Delivery.objects.filter(state="sent").delete()
    Mail.objects.create(user=root, attempts=4, error="refused", **old)
    assert set(codes(api)) == {"webhook_failing"}, "no mail is sent at all"
    settings.EMAIL_ON = True
    assert set(codes(api)) == {"webhook_failing"}, "it is the only one, and the server answers"
    Mail.objects.create(user=person("ann"), attempts=2, error="refused", **old)
    assert set(codes(api)) == {"webhook_failing", "mail_failing"}


def test_one_mistyped_address_is_no_alert(world: World, root: User, mail_server: MailServer) -> None:
    ann = person("ann")
    ann.email = "ann@exmaple.org"
    ann.save()
    mail_server.refusals[ann.email] = "450 4.1.2 Recipient address rejected: Domain not found"
    now = timezone.now()
    mail_round(now)
    lane_shut("mail", now=now)  # it was away, and answers again
    Mail.objects.bulk_create([mail_of(ann, now), mail_of(ann, now)])
    for _ in range(25):
        now += MINUTE
        mail_round(now)
        assert mails_failing(now=now) is None
    assert Mail.objects.filter(attempts__gt=3).count() == 2
    mail_server.refusals[root.email] = "450 4.3.2 Not now"
    mail_of(root, now).save()
    mail_round(now)
    failing = mails_failing(now=now)
    assert failing is not None, "of nobody is anything taken"
    assert "Domain not found" in failing.error
    mail_server.refusals.pop(root.email)
    mail_round(now + 30 * MINUTE)
    assert mails_failing(now=now + 60 * MINUTE) is None, "what was not taken before counts no more"

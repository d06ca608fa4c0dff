"""The pages: choosing what one is told of, and the administrator's webhook."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import AuditEntry, ClusterRole
from portal.common.sealing import unseal
from portal.notices.models import Delivery, Webhook
from portal.notices.selectors import notice_choice
from portal.notices.services.webhook import secret_bytes
from tests.integration.notices.telling import SECRET, choose, ended_jobs, hook, hook_round, mail_round
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser
from tests.support.services.mail_server import MailServer
from tests.support.services.receiver import Receiver

pytestmark = pytest.mark.django_db


def test_a_choice_is_made_on_the_page_and_in_the_api_alike(world: World) -> None:
    browser, api = Browser(world.user), Api(world.user)
    assert browser.get("/profile").links["Notices"] == "/profile/notices"
    page = browser.send("/profile/notices", kinds=["failed", "preempted"])
    assert page.status == 200
    assert api.get("me/notices") == {
        "kinds": ["failed", "preempted"],
        "alerts": True,
        "email": "alice@example.org",
        "sending": False,
    }
    answer = api.call("PUT", "me/notices", {"kinds": ["warned", "running", "warned"]})
    assert answer.json()["kinds"] == ["running", "warned"]
    assert notice_choice(user=world.user).kinds == ["running", "warned"]
    (first, second) = AuditEntry.objects.filter(action="notices").order_by("id")
    assert (first.before, first.after) == ({"kinds": []}, {"kinds": ["failed", "preempted"]})
    assert second.after == {"kinds": ["running", "warned"]}


@pytest.mark.parametrize("kinds", ["failed", ["failing"], [1], None, ["failed"] * 100])
def test_a_choice_that_cannot_be_is_refused(world: World, kinds: object) -> None:
    answer = Api(world.user).call("PUT", "me/notices", {"kinds": kinds})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"].startswith("kinds")


def test_the_page_says_whether_mail_is_sent_and_what_became_of_it(
    world: World, settings: Settings, mail_server: MailServer
) -> None:
    browser = Browser(world.user)
    assert "Mail goes to alice@example.org." in browser.get("/profile/notices").text
    choose(world.user, "failed")
    mail_server.refusals["alice@example.org"] = "550 No such user here"
    world.node("gpu01", gpus=1)
    ended_jobs(world.submit(), 1)
    mail_round()
    assert "No such user here" in browser.get("/profile/notices").text
    settings.EMAIL_ON = False
    assert "This portal sends no e-mail" in browser.get("/profile/notices").text
    settings.EMAIL_ON = True
    type(world.user).objects.filter(pk=world.user.pk).update(email="")
    assert "has no e-mail address" in browser.get("/profile/notices").text


def test_the_webhook_is_set_tried_and_removed_on_its_page(world: World, receiver: Receiver) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    assert "none is set" in browser.get("/cluster/webhook").text
    wrong = browser.send("/cluster/webhook", url="https://10.0.0.1/", secret="x", kinds=["job.failed"])
    assert wrong.status == 400
    assert "BERTH_WEBHOOK_ALLOW" in wrong.text
    assert "openssl rand" in wrong.text
    made = browser.send("/cluster/webhook", url=receiver.url, kinds=["job.failed"], make="on")
    assert not Webhook.objects.exists(), "it is shown first"
    (secret,) = re.findall(r"<code[^>]*>(whsec_[^<]+)</code>", made.html)
    assert len(secret_bytes(secret)) == 32
    assert "no-store" in made.headers["Cache-Control"]
    assert f'value="{receiver.url}"' in made.html, "what was typed stays"
    kept = browser.send("/cluster/webhook", url="https://10.0.0.1/", secret=secret, made="on", kinds=["job.failed"])
    assert secret in kept.html, "what was made stays, where something else is wrong"
    browser.send("/cluster/webhook", url=receiver.url, secret=secret, made="on", kinds=["job.failed"])
    assert unseal(Webhook.objects.get().secret_sealed) == secret
    page = browser.send("/cluster/webhook", url=receiver.url, secret=SECRET, kinds=["job.failed", "node.lost"])
    assert page.status == 200
    assert SECRET not in page.html
    browser.send("/cluster/webhook/test", form="/cluster/webhook")
    hook_round()
    assert "ping" in browser.get("/cluster/webhook").text
    assert len(receiver.received) == 1
    browser.send("/cluster/webhook", url=receiver.url, secret="", kinds=["node.lost"])
    assert Webhook.objects.get().kinds == ["node.lost"]
    browser.send("/cluster/webhook/remove", form="/cluster/webhook")
    assert not Webhook.objects.exists()


@pytest.mark.parametrize(("role", "status"), [(ClusterRole.USER, 404), (ClusterRole.AUDITOR, 200)])
def test_an_auditor_reads_the_webhook_and_changes_nothing_and_others_do_not_see_it(
    world: World, role: ClusterRole, status: int
) -> None:
    hook("https://hook.example.org/", "job.failed")
    browser = Browser(person("eve", role))
    page = browser.get("/cluster/webhook")
    assert page.status == status
    assert ("hook.example.org" in page.text) is (status == 200)
    for path in ("", "/test", "/remove"):
        refused = browser.send(f"/cluster/webhook{path}", form="/profile", url="https://evil.example.org/").status
        assert refused == (403 if status == 200 else 404)
    assert Webhook.objects.get().url == "https://hook.example.org/"
    assert not Delivery.objects.exists()


def test_what_waits_is_given_up_when_the_webhook_is_removed(world: World) -> None:
    api = Api(person("root", ClusterRole.ADMIN))
    hook("https://hook.example.org/")
    api.call("POST", "webhook/test")
    api.call("DELETE", "webhook")
    row = Delivery.objects.get()
    assert (row.state, row.error) == ("given_up", "The webhook was removed.")
    assert row.ended_at is not None
    assert row.ended_at <= timezone.now()

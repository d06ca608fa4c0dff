"""The webhook: what is sent, how it is signed, what becomes of it when nobody takes it, and where it never goes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import AuditEntry, ClusterRole
from portal.common.sealing import seal
from portal.hardware.doomed import DoomedCells, doomed_keep
from portal.hardware.services.nodes import node_set_intent
from portal.notices import outward
from portal.notices.models import Delivery, Webhook
from portal.notices.services.deliveries import delivery_send_next, signature
from portal.notices.services.gather import notices_gather
from portal.notices.services.upkeep import notices_expire
from portal.notices.services.webhook import secret_bytes, webhook_test
from tests.integration.notices.telling import SECRET, ended_jobs, hook, hook_round
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.services.receiver import Receiver
from tests.support.services.tls import DAY, Authority

pytestmark = pytest.mark.django_db

CERTIFICATE = Path(__file__).with_name("hook.example.org.pem")
"""Signed by itself, and its key: of nothing but these tests."""


def test_a_job_that_failed_is_delivered_once_and_signed(world: World, receiver: Receiver) -> None:
    hook(receiver.url, "job.failed")
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    node.finish(code=3)
    world.settle()
    hook_round()
    hook_round()
    (got,) = receiver.received
    assert got.path == "/hook"
    assert got.document["type"] == "job.failed"
    assert got.document["version"] == 1
    assert got.document["data"]["job"] == {
        "id": job.pk, "label": "alice/train#1", "user": "alice", "virtual_cluster": "vision",
        "url": f"http://127.0.0.1:8000/jobs/{job.pk}",
    }  # fmt: skip
    assert "exit status 3" in got.document["data"]["message"]
    stamp = got.headers["webhook-timestamp"]
    assert abs(int(stamp) - timezone.now().timestamp()) < 60
    right = signature(secret_bytes(SECRET), got.headers["webhook-id"], stamp, got.body)
    assert got.headers["webhook-signature"] == right
    assert Delivery.objects.get().state == "sent"


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """Their own example (standard-webhooks/standard-webhooks, README of the libraries)."""
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_only_what_was_chosen_is_told_and_nodes_are_too(world: World, receiver: Receiver) -> None:
    node = world.node("gpu01", gpus=1)
    hook(receiver.url, "node.intent")
    hook_round()
    node_set_intent(node=node.row, intent="draining", reason="fan", actor="root", now=timezone.now())
    world.submit()
    world.settle()
    hook_round()
    assert [got.document["type"] for got in receiver.received] == ["node.intent"]
    assert receiver.received[0].document["data"] == {
        "node": {"name": "gpu01"},
        "message": "Node gpu01 is draining: fan",
    }


def test_quota_that_bad_hardware_takes_is_told_when_it_changes(world: World, receiver: Receiver) -> None:
    hook(receiver.url, "quota.at_risk", "quota.safe")
    one = [DoomedCells("A100", "A100", 2)]
    for found in ({"vision": one}, {"vision": one}, {}, {}):
        doomed_keep(found)
        hook_round()
    assert [got.document["type"] for got in receiver.received] == ["quota.at_risk", "quota.safe"]
    told = receiver.received[0].document["data"]
    assert told["doomed"] == [{"chain": "A100", "cell_type": "A100", "cells": 2}]


def test_a_receiver_that_fails_is_tried_again_ever_more_seldom_with_the_same_id(
    world: World, receiver: Receiver
) -> None:
    hook(receiver.url)
    receiver.status = 500
    now = timezone.now()
    row = webhook_test(actor="root", now=now)
    waits = []
    for _ in range(4):
        hook_round(now)
        row.refresh_from_db()
        assert (row.state, row.status, row.error) == ("waiting", 500, "Answered 500.")
        waits.append((row.next_try_at - now).total_seconds())
        now = row.next_try_at + timedelta(minutes=5)
    assert [round(wait / expected) for wait, expected in zip(waits, (5, 15, 45, 135), strict=True)] == [1, 1, 1, 1]
    receiver.status = 200
    hook_round(now)
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("sent", 5)
    assert {got.headers["webhook-id"] for got in receiver.received} == {row.message_id}
    assert len({got.headers["webhook-timestamp"] for got in receiver.received}) == 5


def test_what_waits_goes_to_a_new_address_at_once(world: World, receiver: Receiver) -> None:
    hook(receiver.url)
    receiver.status = 500
    webhook_test(actor="root", now=timezone.now())
    hook_round()
    with closing(Receiver()) as other:
        hook(other.url)
        hook_round()
        assert len(other.received) == 1
    assert Delivery.objects.get().state == "sent"


def test_a_delivery_that_nobody_takes_is_given_up_after_a_day_and_forgotten_after_a_month(
    world: World, receiver: Receiver
) -> None:
    hook(receiver.url)
    receiver.status = 503
    now = timezone.now()
    webhook_test(actor="root", now=now)
    for minute in range(0, 60 * 26, 10):
        hook_round(now + timedelta(minutes=minute))
    row = Delivery.objects.get()
    assert row.state == "given_up"
    assert row.error == f"Given up after {row.attempts} attempts: Answered 503."
    assert notices_expire(now=now + timedelta(days=29)) == 0
    assert notices_expire(now=now + timedelta(days=33)) == 1


def test_one_that_is_disliked_holds_no_other_back_and_one_that_is_down_is_left_in_peace(
    world: World, receiver: Receiver
) -> None:
    hook(receiver.url)
    now = timezone.now()
    for status, seen in ((400, 3), (500, 4)):
        receiver.status = status
        for _ in range(3):
            webhook_test(actor="root", now=now)
        hook_round(now)
        assert len(receiver.received) == seen
        Delivery.objects.all().delete()


def test_redirects_are_not_followed(world: World, receiver: Receiver) -> None:
    with closing(Receiver()) as other:
        hook(receiver.url)
        receiver.status, receiver.location = 307, other.url
        webhook_test(actor="root", now=timezone.now())
        hook_round()
        assert other.received == []
    assert Delivery.objects.get().error == "Answered 307. Redirects are not followed."


def test_a_large_answer_is_not_read_to_its_end(world: World, receiver: Receiver) -> None:
    hook(receiver.url)
    receiver.status, receiver.length = 200, 200_000_000
    webhook_test(actor="root", now=timezone.now())
    hook_round()
    assert Delivery.objects.get().state == "sent"


def test_an_answer_that_comes_byte_by_byte_has_an_end(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.1")]
    monkeypatch.setattr(outward, "TOTAL_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()
        threading.Thread(target=drip, args=(listener, ended), daemon=True).start()
        hook(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        webhook_test(actor="root", now=timezone.now())
        hook_round()
        assert ended.wait(10), "the connection is closed"
    assert Delivery.objects.get().error == "No answer within 0.5 s."


def drip(listener: socket.socket, ended: threading.Event) -> None:
    """One header without end."""
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not ended.wait(0.02):
            connection.sendall(b"x")
    ended.set()


def test_whoever_dies_between_sending_and_noting_it_sends_it_once_more_with_the_same_id(
    world: World, receiver: Receiver
) -> None:
    hook(receiver.url)
    now = timezone.now()
    webhook_test(actor="root", now=now)
    hook_round(now)
    Delivery.objects.update(state="waiting", ended_at=None, claimed_until=now + timedelta(seconds=60))
    hook_round(now + timedelta(seconds=59))
    assert len(receiver.received) == 1
    hook_round(now + timedelta(seconds=61))
    assert len(receiver.received) == 2
    assert len({got.headers["webhook-id"] for got in receiver.received}) == 1


def test_what_waits_has_a_limit_and_what_was_left_out_is_told(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.notices.services.webhook.MOST_WAITING", 20)
    world.node("gpu01", gpus=1)
    job = world.submit()
    hook(receiver.url, "job.failed")
    ended_jobs(job, 50)
    notices_gather(now=timezone.now())
    assert Delivery.objects.count() == 20
    assert Webhook.objects.get().left_out == 30
    hook_round()
    ended_jobs(world.submit(name="other"), 0)
    webhook_test(actor="root", now=timezone.now())
    node_set_intent(node=world.nodes["gpu01"].row, intent="cordoned", reason="", actor="root", now=timezone.now())
    hook(receiver.url, "node.intent")
    hook_round()
    assert [got.document["type"] for got in receiver.received[20:]] == ["ping", "left_out", "node.intent"]
    assert receiver.received[21].document["data"]["count"] == 30


# ---------------------------------------------------------------- where it never goes

REFUSED = [
    "127.0.0.1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.100.100.200", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "168.63.129.16", "::1", "::", "fe80::1", "fec0::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::1", "::127.0.0.1", "192.0.2.7", "198.18.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_of_the_internet_are_refused(address: str) -> None:
    assert not outward.address_good(ip_address(address), [])


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f::1", "::ffff:93.184.215.14"])
def test_addresses_of_the_internet_are_not(address: str) -> None:
    assert outward.address_good(ip_address(address), [])


def test_the_settings_allow_networks_also_in_their_other_spelling() -> None:
    allowed = [ip_network("10.1.0.0/16")]
    assert outward.address_good(ip_address("::ffff:10.1.2.3"), allowed)
    assert not outward.address_good(ip_address("10.2.0.1"), allowed)


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """A resolver that gives these addresses, one list for each time it is asked; who was asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def answer(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if not str(host).endswith(".example.org"):
            return real(host, port, *args, **more)
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_a_name_that_means_something_else_a_moment_later_does_not_lead_there(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.2")]
    with closing(Receiver("127.0.0.2")) as good:
        asked = names(monkeypatch, ["127.0.0.2"], ["127.0.0.1"])
        hook(f"http://hook.example.org:{good.port}/")
        webhook_test(actor="root", now=timezone.now())
        hook_round()
        assert len(good.received) == 1, "it goes to the address that was judged"
        assert good.received[0].headers["host"] == f"hook.example.org:{good.port}"
        assert asked == ["hook.example.org"], "the name is asked for once"


def test_a_name_of_a_private_address_is_refused_when_it_is_used(
    world: World, receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_ALLOW = []
    names(monkeypatch, ["127.0.0.1", "10.0.0.9"])
    hook(f"https://hook.example.org:{receiver.port}/")
    webhook_test(actor="root", now=timezone.now())
    hook_round()
    assert receiver.received == []
    assert Delivery.objects.get().error == (
        "hook.example.org is 127.0.0.1, 10.0.0.9: not an address of the internet, and not in BERTH_WEBHOOK_ALLOW."
    )


@pytest.mark.parametrize(
    ("host", "trusted", "why"),
    [
        ("hook.example.org", True, ""),
        (
            "hook.example.org",
            False,
            "is signed by an authority that is not known here (self-signed certificate): name its file in "
            "SSL_CERT_FILE.",
        ),
        (
            "other.example.org",
            True,
            "is for another name: write the name that it has into the webhook's address, or have one made for "
            "other.example.org.",
        ),
    ],
)
def test_the_certificate_must_be_trusted_and_of_the_name_that_was_given(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch, host: str, trusted: bool, why: str
) -> None:
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.1")]
    names(monkeypatch, ["127.0.0.1"])
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    outward.trusted.cache_clear()
    with closing(Receiver(certificate=CERTIFICATE)) as receiver:
        hook(f"https://{host}:{receiver.port}/")
        webhook_test(actor="root", now=timezone.now())
        hook_round()
        assert len(receiver.received) == (not why)
    outward.trusted.cache_clear()
    row = Delivery.objects.get()
    assert row.state == ("waiting" if why else "sent")
    at = f"The certificate of the webhook's receiver at {host}:{receiver.port}"
    assert row.error == (f"{at} {why}" if why else "")


@pytest.fixture
def authority(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """The one that this machine trusts, whose receivers may be on loopback."""
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.1")]
    authority = Authority(tmp_path / "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    outward.trusted.cache_clear()
    yield authority
    outward.trusted.cache_clear()


def hook_error(url: str) -> str:
    """What is stored of a delivery there. What follows host and port may be the receiver's secret."""
    Delivery.objects.all().delete()
    hook(f"{url}/services/the-secret")
    webhook_test(actor="root", now=timezone.now())
    hook_round()
    error = Delivery.objects.get().error
    assert "the-secret" not in error
    return error


def test_a_certificate_of_the_receiver_that_is_not_taken_is_told_with_its_cure(
    world: World, authority: Authority, tmp_path: Path
) -> None:
    for files, words in (
        (authority.sign("expired", begins=-2 * DAY, ends=-DAY), "has expired: renew it there (or set this clock right"),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet: this server's clock says"),
        (authority.sign("other", host="hook.example.org"), "is for another name: write the name that it has into the"),
        (
            Authority(tmp_path, "stranger").sign("foreign"),
            "is signed by an authority that is not known here (unable to get local issuer certificate): name its file "
            "in SSL_CERT_FILE.",
        ),
    ):
        with closing(Receiver(certificate=files.certificate, key=files.key)) as bad:
            error = hook_error(f"https://127.0.0.1:{bad.port}")
            assert error.startswith(f"The certificate of the webhook's receiver at 127.0.0.1:{bad.port} {words}"), error
    files = authority.sign("good")
    with closing(Receiver(certificate=files.certificate, key=files.key)) as good:
        assert hook_error(f"https://127.0.0.1:{good.port}") == ""


def test_a_receiver_whose_address_is_wrong_is_told_with_its_cure(
    world: World, authority: Authority, receiver: Receiver
) -> None:
    assert hook_error("https://127.0.0.1:1") == (
        "Nothing listens where the webhook's receiver at 127.0.0.1:1 should: start it, open its port, or correct the "
        "webhook's address."
    )
    assert hook_error("https://nowhere.invalid") == (
        "There is no server named nowhere.invalid: correct the webhook's address, or this server's DNS."
    )
    assert hook_error(f"https://127.0.0.1:{receiver.port}") == (
        f"The webhook's receiver at 127.0.0.1:{receiver.port} does not speak TLS: correct the port or the beginning of "
        "the address in the webhook's address."
    )


def test_without_https_nothing_leaves_the_allowed_networks(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, ["93.184.215.14"])
    hook("http://hook.example.org/")
    webhook_test(actor="root", now=timezone.now())
    hook_round()
    assert Delivery.objects.get().error == "Without https only addresses of BERTH_WEBHOOK_ALLOW are used."


# ---------------------------------------------------------------- the API

BAD = {
    "ftp://example.org/": "https://host/path",
    "https:///x": "https://host/path",
    "https://a b/": "https://host/path",
    "https://user:word@example.org/": "No user or password",
    "https://example.org/#x": "never sent",
    "https://127.0.0.1/": "BERTH_WEBHOOK_ALLOW",
    "https://[::1]:99999/": "no address",
}


@pytest.mark.parametrize("url", BAD)
def test_an_address_that_cannot_be_used_is_refused_with_every_other_fault(world: World, url: str) -> None:
    api = Api(person("root", ClusterRole.ADMIN))
    answer = api.call("PUT", "webhook", {"url": url, "kinds": [], "secret": "whsec_short"})
    assert answer.status_code == 400
    faults = {fault["path"]: fault["message"] for fault in json.loads(answer.content)["errors"]}
    assert faults.keys() == {"url", "secret"}
    assert BAD[url] in faults["url"]
    assert "openssl rand -base64 32" in faults["secret"]


def test_the_webhook_is_set_read_tested_and_removed_and_its_secret_never_shown(
    world: World, receiver: Receiver
) -> None:
    api = Api(person("root", ClusterRole.ADMIN))
    assert api.call("GET", "webhook").status_code == 404
    assert api.call("PUT", "webhook", {"url": receiver.url, "kinds": []}).status_code == 400
    body = {"url": receiver.url, "kinds": ["node.lost", "job.failed"], "secret": SECRET}
    assert api.call("PUT", "webhook", body).status_code == 201
    again = api.call("PUT", "webhook", {"url": receiver.url, "kinds": ["node.lost"]})
    assert again.status_code == 200
    assert api.get("webhook")["kinds"] == ["node.lost"]
    made = api.call("POST", "webhook/test")
    assert made.status_code == 202
    hook_round()
    (got,) = receiver.received
    assert got.headers["webhook-id"] == json.loads(made.content)["message_id"]
    (row,) = api.get("webhook/deliveries?state=sent&kind=ping")["results"]
    assert (row["status"], row["attempts"], row["error"]) == (204, 1, "")
    everything = b"".join(
        [again.content, made.content, *(str(entry.after).encode() for entry in AuditEntry.objects.all())]
    )
    assert b"MfKQ9r8" not in everything
    assert "MfKQ9r8" not in Webhook.objects.get().secret_sealed
    assert api.call("DELETE", "webhook").status_code == 204
    assert api.call("DELETE", "webhook").status_code == 404
    assert api.call("POST", "webhook/test").status_code == 404
    assert [entry.action for entry in AuditEntry.objects.filter(target="webhook")] == ["webhook"] * 4


def test_a_delivery_that_cannot_be_made_is_tried_again_and_given_up_after_a_day(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    hook(receiver.url)
    Webhook.objects.update(secret_sealed=seal("no secret of a webhook"))
    now = timezone.now()
    webhook_test(actor="root", now=now)
    webhook_test(actor="root", now=now)
    hook_round(now)
    rows = Delivery.objects.order_by("id")
    assert [(row.state, row.attempts, row.error) for row in rows] == [("waiting", 1, "ValueError: no mark")] * 2
    assert all(row.next_try_at > now for row in rows)
    assert "Traceback" in caplog.text
    hook_round(now + timedelta(days=1))
    assert [row.state for row in rows.all()] == ["given_up"] * 2


def test_two_workers_at_once_send_one_delivery_once(world: World, receiver: Receiver) -> None:
    hook(receiver.url)
    now = timezone.now()
    row = webhook_test(actor="root", now=now)
    Delivery.objects.filter(pk=row.pk).update(claimed_until=now + timedelta(seconds=30))
    assert not delivery_send_next(now=now)
    assert receiver.received == []

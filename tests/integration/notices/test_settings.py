"""The settings of notices: read from the environment, checked before anything starts."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from django.core.checks import run_checks
from pytest_django.fixtures import Settings

from portal.env.addresses import MailServer, env_mail, env_networks
from portal.env.values import BadSetting

GOOD = {
    "smtp://mail": MailServer("mail", 25),
    "smtp+tls://me:p%40ss@mail.example.org": MailServer("mail.example.org", 587, "me", "p@ss", starttls=True),
    "smtps://me:x@mail.example.org:4650/": MailServer("mail.example.org", 4650, "me", "x", tls=True),
}


@pytest.mark.parametrize("url", GOOD)
def test_a_mail_server_is_one_address(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL", url)
    assert env_mail("MAIL") == (True, GOOD[url])


def test_without_an_address_no_mail_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAIL", raising=False)
    assert env_mail("MAIL") == (False, MailServer())


@pytest.mark.parametrize(
    "url", ["mail", "http://mail", "smtp://", "smtp://u:hunter2@h:x", "smtp://h/box", "smtp://h?x=1"]
)
def test_what_is_no_mail_server_stops_the_start_without_telling_a_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL", url)
    with pytest.raises(BadSetting) as refused:
        env_mail("MAIL")
    assert "smtp+tls://user:password@host:587" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_networks_are_read_and_what_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETS", "10.1.0.0/16, 192.0.2.7,fd00::/8")
    assert env_networks("NETS") == [ip_network("10.1.0.0/16"), ip_network("192.0.2.7/32"), ip_network("fd00::/8")]
    monkeypatch.setenv("NETS", "10.1.0.1/16")
    with pytest.raises(BadSetting, match="NETS"):
        env_networks("NETS")


@pytest.mark.django_db
def test_whom_mail_comes_from_is_needed_and_that_none_is_sent_is_said(settings: Settings) -> None:
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    ids = {message.id for message in run_checks(include_deployment_checks=True)}
    assert "berth.I001" in ids
    settings.EMAIL_ON, settings.EMAIL_FROM = True, "Berth"
    ids = {message.id for message in run_checks(include_deployment_checks=True)}
    assert "berth.E003" in ids
    assert "berth.I001" not in ids
    settings.EMAIL_FROM = "Berth <berth@example.org>"
    assert "berth.E003" not in {message.id for message in run_checks()}

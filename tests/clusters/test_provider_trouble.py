"""Signing in by a provider: what the administrator must mend, and a portal without passwords."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.accounts.services import user_create
from tests.clusters.signing_in import CALLBACK, sign_in
from tests.support.cast import Api, person
from tests.support.oidc.provider import CLIENT, Provider
from tests.support.pages import Browser
from tests.support.played import manage
from tests.support.processes import free_port
from tests.support.reader import reader_of
from tests.support.receiver import Receiver

pytestmark = pytest.mark.django_db


# ---------------------------------------------------------------- what the administrator must mend


def test_a_wrong_secret_is_named(provider: Provider, settings: Settings) -> None:
    settings.OIDC_CLIENT_SECRET = "expired"
    page = sign_in(provider)
    assert (page.status, "does not accept BERTH_OIDC_CLIENT_ID and BERTH_OIDC_CLIENT_SECRET" in page.text) == (
        502,
        True,
    )


def test_a_wrong_issuer_is_named(provider: Provider, settings: Settings) -> None:
    for issuer, said in {
        f"{provider.issuer}/": f"calls itself {provider.issuer}, and BERTH_OIDC_ISSUER is {provider.issuer}/",
        provider.url: "answers 404 and no description of a sign-in provider",
        f"http://127.0.0.1:{free_port()}": "does not answer at http://127.0.0.1:",
    }.items():
        settings.OIDC_ISSUER = issuer
        page = Browser().get("/login/oidc")
        assert (page.status, said in page.text) == (502, True), page.text


def test_a_certificate_that_nobody_trusts_is_named(settings: Settings) -> None:
    with closing(Receiver(certificate=Path("tests/notices/hook.example.org.pem"))) as other:
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"https://127.0.0.1:{other.port}", CLIENT
        page = Browser().get("/login/oidc")
    assert page.status == 502
    assert f"The certificate of the sign-in provider at https://127.0.0.1:{other.port}/" in page.text
    assert "is not accepted (self-signed certificate" in page.text


def test_a_command_says_what_the_provider_must_know_and_what_the_grants_lack(
    provider: Provider, settings: Settings, tmp_path: Path
) -> None:
    with reader_of(tmp_path, programs={"manage.py": manage}) as reader:
        (out,) = reader.section("docs/operate.md", "Sign-in by OpenID Connect").values()
    assert f"redirect URI      {CALLBACK}" in out
    assert "signatures        RS256" in out
    assert "gone              lead:no-such: there is no virtual cluster no-such" in out
    assert "gone              group:no-such: there is no group no-such" in out
    assert "vision            member:vision\n" in out
    settings.OIDC_ISSUER = f"{provider.issuer}/"
    with pytest.raises(CommandError, match="to the last character"):
        call_command("oidc_check")
    settings.OIDC_ISSUER = ""
    with pytest.raises(CommandError, match="BERTH_OIDC_ISSUER and BERTH_OIDC_CLIENT_ID are not set"):
        call_command("oidc_check")


def test_without_a_provider_there_is_no_button_and_no_page(db: None) -> None:
    assert "Log in with" not in Browser().get("/login").text
    for path in ("/login/oidc", "/login/oidc/callback"):
        assert Browser().get(path).status == 404


# ---------------------------------------------------------------- passwords


def test_without_passwords_only_the_provider_lets_in(provider: Provider, settings: Settings) -> None:
    user_create(username="alice", password="correct-horse-battery")
    settings.PASSWORDS = False
    page = Browser().get("/login")
    assert "password" not in page.attribute("input", "name")
    refused = Browser().send("/login", username="alice", password="correct-horse-battery")
    assert (refused.status, "Nobody logs in by password here" in refused.text) == (403, True)
    asked = {"username": "alice", "password": "correct-horse-battery"}
    assert Api().call("POST", "login", asked).status_code == 403
    browser = Browser()
    assert "eve" in sign_in(provider, browser).text
    assert "Change the password" not in browser.get("/profile").text
    assert browser.send("/profile/password", "/profile", old="a", new="b").status == 403


def test_logging_out_says_that_the_provider_is_another_matter(provider: Provider) -> None:
    browser = Browser()
    sign_in(provider, browser)
    assert "At Example you are still logged in" in browser.send("/logout", "/profile").text
    plain = Browser(person("alice"))
    assert "still logged in" not in plain.send("/logout", "/profile").text

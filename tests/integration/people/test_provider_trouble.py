"""Signing in by a provider: what the administrator must mend, and a portal without passwords."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from portal.accounts.oidc import provider as oidc
from portal.accounts.oidc.faults import SignInFault
from portal.accounts.services import user_create
from tests.integration.people.signing_in import CALLBACK, sign_in
from tests.support.cluster.played import manage
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser
from tests.support.people.reader import reader_of
from tests.support.services.oidc.provider import CLIENT, Provider
from tests.support.services.processes import free_port
from tests.support.services.receiver import Receiver
from tests.support.services.tls import DAY, Authority

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


def test_a_certificate_that_is_not_taken_is_told_with_its_cure(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.ca))
    now = "[0-9-]{10} [0-9:]{5} UTC"
    for files, words in (
        (
            authority.sign("expired", begins=-2 * DAY, ends=-DAY),
            rf"has expired: renew it there, or set the clock of the portal's server right \(it says {now}\)\.",
        ),
        (authority.sign("early", begins=DAY, ends=2 * DAY), f"is not valid yet: the clock .* says {now}; set it right"),
        (
            authority.sign("other", host="id.example.org"),
            "is for another name: write the name that it has into BERTH_OIDC_ISSUER, or have one made for 127.0.0.1",
        ),
        (
            Authority(tmp_path, "stranger").sign("foreign"),
            r"is signed by an authority that the portal's server does not know \(unable to get local issuer "
            r"certificate\): name its file in REQUESTS_CA_BUNDLE",
        ),
    ):
        with closing(Receiver(certificate=files.certificate, key=files.key)) as other:
            settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"https://127.0.0.1:{other.port}", CLIENT
            page = Browser().get("/login/oidc")
            with pytest.raises(CommandError, match=words):
                call_command("oidc_check")
        assert page.status == 502
        at = f"The certificate of the sign-in provider at https://127.0.0.1:{other.port}/"
        assert re.search(f"{at}.well-known/openid-configuration {words}", page.text), page.text


def test_a_provider_without_tls_and_a_list_of_authorities_that_is_away_are_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Receiver()) as plain:
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"https://127.0.0.1:{plain.port}", CLIENT
        page = Browser().get("/login/oidc")
        assert (page.status, "does not speak TLS" in page.text) == (502, True), page.text
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    settings.OIDC_ISSUER = f"https://127.0.0.1:{free_port()}"
    page = Browser().get("/login/oidc")
    assert page.status == 502
    assert "cannot be read (/nowhere/ca.pem): correct REQUESTS_CA_BUNDLE" in page.text


@pytest.fixture
def silent(settings: Settings) -> Iterator[socket.socket]:
    """A provider that takes every connection and never answers: what listens in its place."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        listener.setblocking(False)
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"http://127.0.0.1:{listener.getsockname()[1]}", CLIENT
        yield listener


def asked(listener: socket.socket) -> int:
    """How many requests have come since the last look."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def code_now() -> str:
    with pytest.raises(SignInFault) as fault:
        oidc.provider_now()
    return fault.value.code


def test_a_provider_that_hangs_holds_one_thread_up_and_is_let_alone_for_a_while(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(oidc, "OTHERS_WAIT_S", 0.05)
    with ThreadPoolExecutor(6) as threads:
        assert [one.result() for one in [threads.submit(code_now) for _ in range(6)]] == ["unreachable"] * 6
    assert asked(silent) == 1
    assert code_now() == "unreachable"
    assert asked(silent) == 0
    monkeypatch.setattr(oidc, "FAULT_KEPT_S", 0)
    assert code_now() == "unreachable"
    assert asked(silent) == 1


def test_sign_ins_that_come_to_nothing_are_limited_by_address_and_leave_passwords_alone(settings: Settings) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = f"http://127.0.0.1:{free_port()}", CLIENT
    user_create(username="alice", password="correct-horse-battery")
    most = settings.LOGIN_RATE[0]
    statuses = [Browser().get("/login/oidc").status for _ in range(2 * most + 1)]  # a window may end between them
    assert (statuses[:most], statuses.count(429) > 0) == ([502] * most, True)
    page = Browser().send("/login", username="alice", password="correct-horse-battery")
    assert (page.status, "alice" in page.text) == (200, True)


def test_a_command_says_what_the_provider_must_know_and_what_the_grants_lack(
    provider: Provider, settings: Settings, tmp_path: Path
) -> None:
    with reader_of(tmp_path, programs={"manage.py": manage}) as reader:
        (out,) = reader.section("docs/admin/accounts.md", "Sign-in by OpenID Connect").values()
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
